import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, X: records as files.
@Suite struct RecordFileTests {
  let cache: Cache
  let store: BlobStore

  init() throws {
    cache = try Cache()
    store = try cache.store()
  }

  /// X1.
  @Test func aPathLeadsToHeaderAndPayload() throws {
    let path = try store.filePath(for: "a/b")
    #expect(path == cache.root.appending("a%/a%2Fb"))
    #expect(try !cache.exists("a%/a%2Fb"))
    try store.store(payload(100), for: "a/b")
    let bytes = try Data(contentsOf: URL(filePath: path.string))
    #expect(bytes.count == 164)
    #expect(bytes.dropFirst(RecordHeader.byteCount).elementsEqual(payload(100)))
    expect(.invalidKey) { _ = try store.filePath(for: "") }
  }

  /// X2. Another store has separate locks, as another process does.
  @Test func changesWaitAndLoadsDoNot() throws {
    let hasty = try cache.store { $0.access.lockTimeout = .milliseconds(20) }
    try store.store(payload(10, 1), for: "key")
    let size = try store.withExclusiveAccess(to: "key") { path in
      expect(.busy) { try hasty.store(payload(10, 2), for: "key") }
      expect(.busy) { try hasty.lock("key") }
      expect(.busy) { try hasty.remove("key") }
      expect(.busy) { try hasty.withExclusiveAccess(to: "key") { _ in #expect(Bool(false), "not to be called") } }
      cache.clock.advance(by: 1000)
      // The record is expired, and is removed by the first pass that gets the stripe.
      #expect(try hasty.collect().failed == 1)
      cache.clock.advance(by: -1000)
      #expect(try hasty.load("key")?.payload == payload(10, 1))
      #expect(try store.load("key")?.payload == payload(10, 1))
      return try Data(contentsOf: URL(filePath: path.string)).count
    }
    #expect(size == 74)
    try hasty.store(payload(10, 2), for: "key")
    #expect(try store.load("key")?.payload == payload(10, 2))
  }

  /// X2: other changes by the same store wait, too.
  @Test func aChangeOfTheSameKeyWithinWouldWaitForItself() throws {
    let hasty = try cache.store { $0.access.lockTimeout = .milliseconds(20) }
    try hasty.store(payload(10), for: "key")
    try hasty.withExclusiveAccess(to: "key") { _ in
      _ = expect(.busy) { try hasty.remove("key") }
    }
    #expect(try hasty.remove("key") == .done)
  }

  /// X3.
  @Test func whatTheClosureThrowsIsThrown() throws {
    struct Failure: Error {}
    try store.store(payload(10), for: "key")
    #expect(throws: Failure.self) { try store.withExclusiveAccess(to: "key") { _ in throw Failure() } }
    try store.store(payload(11), for: "key")
    expect(.invalidKey) { try store.withExclusiveAccess(to: "") { _ in } }
  }

  /// X3: the record and its directory need not exist.
  @Test func theRecordNeedNotExist() throws {
    #expect(try store.withExclusiveAccess(to: "key") { FileManager.default.fileExists(atPath: $0.string) } == false)
    #expect(try cache.files() == [])
    try store.store(payload(1), for: "other")
    #expect(try store.withExclusiveAccess(to: "key") { FileManager.default.fileExists(atPath: $0.string) } == false)
  }
}
