import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Verification and loads detect damaged packed records, and apply the damage policy to each record.
@Suite struct PackedDamageTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  enum Part: CaseIterable {
    case header, payload
  }

  private func store(_ policy: BlobStore.DamagePolicy = .report) throws -> BlobStore {
    try cache.store {
      $0.packing = .upTo(1000)
      $0.damagePolicy = policy
    }
  }

  /// Stores three records, and damages the second one.
  private func fill(damaging part: Part) throws {
    let store = try store()
    for key in ["first", "second", "third"] as [BlobKey] { try store.store(payload(100), for: key) }
    let place = try #require(try store.records().first { $0.key == "second" }?.packed)
    // The offset of the update time, or of the first byte of the payload.
    let offset = part == .header ? 16 : 40 + "second".utf8.count
    let file = try FileHandle(forUpdating: URL(filePath: cache.path(".packs/p-\(place.pack)")))
    defer { try? file.close() }
    try file.seek(toOffset: UInt64(2_166_784 + 1_032_192 * place.chunk + place.offset + offset))
    let byte = try #require(try file.read(upToCount: 1)?.first)
    try file.seek(toOffset: try file.offset() - 1)
    try file.write(contentsOf: Data([byte ^ 1]))
  }

  private func expectOthers(_ store: BlobStore, sourceLocation: SourceLocation = #_sourceLocation) throws {
    #expect(try store.load("first")?.payload == payload(100), sourceLocation: sourceLocation)
    #expect(try store.load("third")?.payload == payload(100), sourceLocation: sourceLocation)
  }

  private func isExpected(_ damage: RecordError?, _ part: Part) -> Bool {
    switch (damage, part) {
    case (.invalidHeaderCRC, .header), (.payloadChecksumMismatch, .payload): true
    default: false
    }
  }

  @Test(arguments: Part.allCases) func aVerificationFindsIt(part: Part) throws {
    try fill(damaging: part)
    let store = try store()
    var damaged: [RecordEntry] = []
    let report = try store.verify { finding in
      if case .record(let entry) = finding, entry.state == .damaged { damaged.append(entry) }
    }
    #expect([report.soundRecords, report.damagedFiles, report.repairedFiles] == [2, 1, 0])
    #expect(damaged.map(\.key) == ["second"])
    #expect(damaged.first?.packed != nil)
    #expect(isExpected(damaged.first?.damage, part))
    let usage = try store.usage()
    #expect([usage.records, usage.damagedFiles] == [part == .header ? 2 : 3, part == .header ? 1 : 0])
    try expectOthers(store)
  }

  @Test(arguments: Part.allCases) func aVerificationRemovesIt(part: Part) throws {
    try fill(damaging: part)
    let store = try store()
    #expect(try store.verify(repairing: .remove).repairedFiles == 1)
    #expect(try store.verify() == (try cache.store().verify()))
    #expect(try store.verify().soundRecords == 2)
    #expect(try store.load("second") == nil)
    #expect(try store.usage().records == 2)
    try expectOthers(store)
  }

  @Test(arguments: Part.allCases) func aVerificationMovesItToTheQuarantine(part: Part) throws {
    try fill(damaging: part)
    let store = try store()
    #expect(try store.verify(repairing: .quarantine).repairedFiles == 1)
    #expect(try store.load("second") == nil)
    let bytes = try cache.bytes(".quarantine/second")
    let usage = try store.usage()
    #expect([usage.records, usage.quarantinedFiles, usage.quarantinedBytes] == [2, 1, Int64(bytes.count)])
    var expected = Array(payload(100))
    if part == .payload {
      // The quarantine contains a record file with the damaged payload.
      expected[0] ^= 1
      #expect(bytes.count == 164)
      #expect(Array(bytes.dropFirst(64)) == expected)
      #expect(try cache.header(".quarantine/second").payloadSize == 100)
    } else {
      // The file has the bytes of the packed record: header, name, and payload.
      #expect(Array(bytes.dropFirst(46).prefix(100)) == expected)
    }
    try expectOthers(store)
  }

  @Test(arguments: Part.allCases, BlobStore.DamagePolicy.allCases)
  func aLoadFollowsThePolicy(part: Part, policy: BlobStore.DamagePolicy) throws {
    try fill(damaging: part)
    let store = try store(policy)
    expect(.damaged) { _ = try store.load("second") }
    #expect(try cache.exists(".quarantine/second") == (policy == .quarantine))
    if policy == .report {
      expect(.damaged) { _ = try store.load("second") }
    } else {
      #expect(try store.load("second") == nil)
    }
    try store.store(payload(7), for: "second")
    #expect(try store.load("second")?.payload == payload(7))
    try expectOthers(store)
  }

  /// No change of the record can be in progress, because a change requires the key.
  @Test func aCollectionRemovesADamagedHeader() throws {
    try fill(damaging: .header)
    let store = try store()
    #expect(try store.collect().damaged == 1)
    #expect(try store.usage().damagedFiles == 0)
    #expect(try store.load("second") == nil)
    try expectOthers(store)
    try store.checkInvariants()
  }

  @Test func aWipeRemovesIt() throws {
    try fill(damaging: .header)
    let store = try store()
    #expect(try store.removeAll(.all).files == 3)
    #expect(try store.load("second") == nil)
    #expect(Array(try store.records()).isEmpty)
  }

  /// A chunk that cannot be read is reported, and the other records are processed.
  @Test func aChunkThatCannotBeReadIsTold() throws {
    try fill(damaging: .payload)
    try store().store(payload(2000), for: "large")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    // This reads the pack's header.
    #expect(try store.load("first") != nil)
    trace.onCall { call, path in call == .read && path.string.hasSuffix("p-0") ? .fail(.ioError) : nil }
    let entries = Array(try store.records())
    #expect(entries.count == 2)
    #expect(entries.first { $0.state == .unreadable }?.file == ".packs/p-0")
    #expect(entries.contains { $0.key == "large" })
    #expect(try store.usage().unreadableFiles == 1)
    #expect(try store.collect().failed == 1)
  }
}
