import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// A store notices that its root was replaced by one with a different arrangement.
@Suite struct ReplacedArrangementTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func store(
    _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try cache.store {
      $0.layout.arrangement = nil
      change(&$0)
    }
  }

  /// Stores a blob with another program's configuration.
  private func plant(_ arrangement: RecordArrangement, _ byteCount: Int = 5) throws {
    try cache.store { $0.layout.arrangement = arrangement }.store(payload(byteCount), for: "foobar")
  }

  @Test(arguments: ["load", "header", "lock", "remove", "store", "exclusive", "foreign", "records"])
  func aRootOfAnotherArrangementIsUsedByItsOwn(operation: String) throws {
    let store = try store()
    try store.store(payload(5), for: "foobar")
    try check(rename(cache.path(""), cache.outside.path.string + "/moved"), "rename")
    try plant(.prefix, 6)
    store.checkRoot()
    let file = cache.root.appending("fo/foobar")
    switch operation {
    case "load": #expect(try store.load("foobar")?.payload == payload(6))
    case "header": #expect(try store.header(for: "foobar")?.payloadSize == 6)
    case "lock":
      #expect(try store.lock("foobar") == .done)
      #expect(try cache.header("fo/foobar").refCount == 1)
    case "remove":
      #expect(try store.remove("foobar") == .done)
      #expect(try cache.files() == [])
    case "store":
      try store.store(payload(7), for: "foobar")
      #expect(try cache.bytes("fo/foobar").count == 71)
      #expect(try cache.files() == ["fo/foobar"])
    case "exclusive": try store.withExclusiveAccess(to: "foobar") { #expect($0 == file) }
    case "foreign": #expect(try store.foreignRecord(for: "foobar") == nil)
    default: #expect(try store.records().map(\.file) == ["fo/foobar"])
    }
    #expect(try store.filePath(for: "foobar") == file)
    #expect(try fileState(cache.outside.path.string + "/moved/v8/foobar")?.size == 69)
  }

  @Test(arguments: [BlobStore.DamagePolicy.report, .remove, .quarantine])
  func damageInSuchARootIsFoundWhereItLies(policy: BlobStore.DamagePolicy) throws {
    let store = try store { $0.damagePolicy = policy }
    try store.store(payload(5), for: "foobar")
    try check(rename(cache.path(""), cache.outside.path.string + "/moved"), "rename")
    try plant(.prefix, 6)
    var bytes = try cache.bytes("fo/foobar")
    bytes[66] ^= 1
    try cache.write(bytes, to: "fo/foobar")
    store.checkRoot()
    let error = expect(.damaged) { _ = try store.load("foobar") }
    #expect(error?.path == cache.root.appending("fo/foobar"))
    #expect(try cache.exists("fo/foobar") == (policy == .report))
  }
}
