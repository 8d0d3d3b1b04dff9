import BlobStore
import Foundation
import Posix
import TestSupport
import Testing

/// Spec/Semantics.md, B8a: the bytes of a purged packed record are overwritten immediately.
@Suite struct PackedPurgeTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func isInPack(_ bytes: Data) throws -> Bool {
    try Data(contentsOf: URL(filePath: cache.path(".packs/p-0"))).range(of: bytes) != nil
  }

  private static let keys: [BlobKey] = ["first", "second", "third"]

  private func fill(_ store: BlobStore) throws {
    for (number, key) in Self.keys.enumerated() { try store.store(payload(500, UInt64(number)), for: key) }
  }

  private func expectTheOthers(_ store: BlobStore) throws {
    #expect(try store.load("first")?.payload == payload(500, 0))
    #expect(try store.load("second") == nil)
    #expect(try store.load("third")?.payload == payload(500, 2))
    #expect(try PackAudit(of: cache.root).flaws == [])
  }

  @Test(arguments: [true, false]) func itsBytesAreOverwritten(purging: Bool) throws {
    let store = try store()
    try fill(store)
    #expect(try isInPack(payload(500, 1)))
    #expect(try store.remove("second", purging: purging) == .done)
    #expect(try isInPack(payload(500, 1)) == !purging)
    #expect(try isInPack(Data("second".utf8)) == !purging)
    try expectTheOthers(store)
    // The walk of the next boot skips the zeros.
    try NextBoot.begin(in: cache.root.string)
    try expectTheOthers(self.store())
    #expect(try store.collect().failed == 0)
  }

  @Test func soAreThoseOfMany() throws {
    let store = try store()
    try fill(store)
    #expect(try store.purge(["second", "none"]).count == 2)
    #expect(try !isInPack(payload(500, 1)))
    try expectTheOthers(store)
  }

  @Test func itIsRemovedWhereItsBytesStay() throws {
    let trace = CallTrace()
    let store = try store(files: trace.files)
    try fill(store)
    trace.onCall { call, path in
      call == .write && path.lastComponent?.string == "p-0" ? .fail(.ioError) : nil
    }
    let error = expect(.fileSystem) { try store.remove("second", purging: true) }
    #expect(error?.errno == .ioError)
    trace.onCall(nil)
    try expectTheOthers(store)
  }
}
