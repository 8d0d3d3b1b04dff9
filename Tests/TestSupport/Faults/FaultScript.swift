package import BlobRecord
internal import BlobStore
internal import Foundation

/// A short sequence of operations that a test repeats, with a different failing call each time.
package struct FaultScript: Sendable, CustomStringConvertible {
  package enum Step: Sendable {
    case operation(StoreOperation)
    case advance(Int64)
    case damage(BlobKey, StoreModel.Damage, isAged: Bool)
    /// Creates a temporary file whose writer is dead.
    case temporary(BlobKey)
    /// Creates a file of another user.
    case foreign(BlobKey)
    /// Creates a second link to the record's file, like a backup by `cp -al`.
    case link(BlobKey)
  }

  package let name: String
  package let steps: [Step]

  package var description: String { name }

  package static let all = [
    stores, locks, streams, visibleStreams, extensions, reads, links, damage, collection, wipes,
  ]

  /// The size limit of every configuration, which only `collection` reaches.
  package static let sizeLimit: Int64 = 20_000

  private static func payload(_ count: Int) -> Data {
    Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ count) })
  }

  private static func store(
    _ key: BlobKey, _ count: Int, ttl: Int64? = nil, locks: BlobStore.LockPolicy = .none
  ) -> Step {
    .operation(
      .store(key, payload(count), ttl: ttl.map { .seconds($0) }, locks: locks))
  }

  private static let stores = FaultScript(
    name: "stores",
    steps: [
      store("a", 100), store("abc", 300, locks: .one), .advance(1), store("abc", 301), store("a", 0, ttl: 60),
      store("abc", 302, locks: .one), store("abc", 303, locks: .keep), .operation(.load("abc", touching: true)),
    ])

  /// A script whose records move between files and packs, for packs with records of up to 1000 bytes.
  package static let packs = FaultScript(
    name: "packs",
    steps: [
      store("a", 100), store("abc", 300), store("abc", 3000), store("abc", 200, locks: .keep), .operation(.lock("abc")),
      .operation(.lock("abc")), store("abc", 3001, locks: .keep), store("abc", 201, locks: .keep),
      .operation(.unlock("abc", force: false)), .advance(1), .operation(.touch("a")),
      .operation(.load("a", touching: true)), .operation(.read("abc", touching: true)),
      .operation(.storePieces("abc", payload(302), ttl: nil, locks: .none)), store("abc", 50, ttl: 60),
      .operation(.setExtendedData("abc", payload(30))), .operation(.header("abc")), .operation(.contains("abc")),
      .operation(.remove("abc")), .operation(.remove("abc")), .operation(.remove("a")),
    ])

  private static let locks = FaultScript(
    name: "locks",
    steps: [
      store("abc", 300), .operation(.lock("abc")), .operation(.lock("abc")), .operation(.unlock("abc", force: false)),
      .advance(700), .operation(.touch("abc")), .operation(.unlock("abc", force: true)),
      .operation(.unlock("abc", force: false)), .operation(.lock("absent")), .operation(.lock("abc")),
      .operation(.remove("abc")), .operation(.remove("abc")), store("abc", 10), .operation(.remove("abc")),
    ])

  private static let streams = FaultScript(
    name: "streams",
    steps: [
      .operation(.storeContents("stream", payload(5000), ttl: nil, locks: .none)),
      .operation(.storeContents("stream", payload(600), ttl: .seconds(60), locks: .one)),
      .operation(.storeContents("stream", payload(0), ttl: nil, locks: .keep)),
      .operation(.load("stream", touching: true)),
      .operation(.storePieces("stream", payload(5000), ttl: nil, locks: .none)),
      .operation(.storePieces("stream", payload(600), ttl: .seconds(60), locks: .one)),
      .operation(.storePieces("stream", payload(0), ttl: nil, locks: .keep)),
      .operation(.storePieces("stream", payload(700), ttl: nil, locks: .none)), .advance(5),
      .operation(.read("stream", touching: true)), .operation(.read("absent", touching: true)),
    ])

  private static let visibleStreams = FaultScript(
    name: "visible streams",
    steps: [
      .operation(.storeVisibly("stream", payload(5000), ttl: nil, locks: .none)),
      .operation(.storeVisibly("stream", payload(601), ttl: .seconds(60), locks: .one)), .advance(5),
      .operation(.load("stream", touching: true)),
      .operation(.storeVisibly("stream", payload(0), ttl: nil, locks: .keep)),
      .operation(.storeVisibly(longKey, payload(77), ttl: nil, locks: .none)), .operation(.records(prefix: "")),
    ])

  private static let longKey = BlobKey("https://example.com/" + String(repeating: "long/", count: 60))

  private static let extensions = FaultScript(
    name: "extensions",
    steps: [
      .operation(.storeExtended("abc", payload(300), extendedData: payload(20))),
      .operation(.setExtendedData("abc", payload(200))), .operation(.setExtendedData("abc", payload(2))),
      .operation(.setExtendedData("abc", payload(0))), .operation(.extendedData("abc")), store(longKey, 9000),
      .operation(.setExtendedData(longKey, payload(9))), .operation(.extendedData(longKey)), .link(longKey),
      .operation(.setExtendedData(longKey, payload(10))), .advance(1), .operation(.load(longKey, touching: true)),
      .operation(.records(prefix: longKey.string)), .operation(.lock(longKey)),
      .operation(.setExtendedData(longKey, payload(11))), .operation(.verify), store(longKey, 20, locks: .keep),
      .operation(.setExtendedData("absent", payload(1))),
    ])

  private static let reads = FaultScript(
    name: "reads",
    steps: [
      store("a", 100), store("abc", 300, locks: .one), store("abd", 10, ttl: 60), .foreign("SOMETHING"), .advance(1),
      .operation(.load("abc", touching: true)), .operation(.load("abd", touching: true)),
      .operation(.load("absent", touching: true)), .operation(.load("a", touching: false)),
      .operation(.contains("abc")), .operation(.header("a")), .operation(.records(prefix: "")),
      .operation(.records(prefix: "ab")), .operation(.records(prefix: "a")), .operation(.loadFirst(prefix: "ab")),
      .operation(.usage), .operation(.verify),
    ])

  private static let links = FaultScript(
    name: "links",
    steps: [
      store("a", 100), .link("a"), .advance(1), .operation(.touch("a")), store("abc", 300), .link("abc"),
      .operation(.lock("abc")), .link("abc"), .advance(1), .operation(.load("abc", touching: true)), .link("abc"),
      .operation(.unlock("abc", force: false)), .link("abc"), store("abc", 20),
    ])

  private static let damage = FaultScript(
    name: "damage",
    steps: [
      store("sound", 30), store("dam1", 20), .damage("dam1", .header, isAged: false), store("dam2", 20, locks: .one),
      .damage("dam2", .payload, isAged: false), .operation(.verify), .operation(.lock("dam1")),
      .operation(.load("dam1", touching: true)), .operation(.load("dam2", touching: true)),
      store("dam3", 20), .damage("dam3", .header, isAged: false), .operation(.remove("dam3")), store("dam4", 20),
      .damage("dam4", .header, isAged: false), store("dam4", 21, locks: .keep), .operation(.usage),
    ])

  private static let collection = FaultScript(
    name: "collection",
    steps: [
      store("abc", 300, ttl: 60), store("abd", 10, locks: .one), store("dead", 10, ttl: 60), store("dam", 20),
      .damage("dam", .header, isAged: true), .temporary(".tmp-dead"), .temporary("ab/.tmp-dead"), .foreign("SOMETHING"),
      .advance(100), .operation(.collect(dryRun: true)), .operation(.collect(dryRun: false)), store("e1", 6000),
      .advance(1), store("e2", 6000), .advance(1), store("e3", 6000), .advance(1), store("e4", 6000),
      .operation(.collect(dryRun: false)), .operation(.collect(dryRun: false)),
    ])

  private static let wipes = FaultScript(
    name: "wipes",
    steps: [
      store("abc", 300), store("abd", 10, locks: .one), store("a", 5), .operation(.removeAll(.unlocked)),
      store("xyz", 10), .operation(.removeAll(.locked)), store("abd", 10, locks: .one), .temporary("xy/.tmp-dead"),
      .foreign("SOMETHING"), store("dam", 20), .damage("dam", .payload, isAged: false),
      .operation(.load("dam", touching: true)), .operation(.removeAll(.all)), store("a", 5),
    ])
}
