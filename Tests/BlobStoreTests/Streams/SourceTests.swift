import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Y31 and A41: the sources of payloads.
@Suite(.timeLimit(.minutes(30))) struct SourceTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// A41: a turn of a source with small pieces ends after 64 reads, even if more data is available.
  @Test func aTurnTakesSoManyReads() throws {
    let store = try cache.store()
    var ends: [CInt] = [-1, -1]
    // Each message requires its own read.
    try check(socketpair(AF_UNIX, Int32(SOCK_SEQPACKET.rawValue), 0, &ends), "socketpair")
    let (readEnd, writeEnd) = (FileDescriptor(rawValue: ends[0]), FileDescriptor(rawValue: ends[1]))
    defer { try? readEnd.close() }
    try writeEnd.closeAfter { for _ in 0..<100 { _ = try writeEnd.writeAll([7]) } }
    var writer = try store.openWriter(for: "key", ttl: .seconds(50))
    let source = store.payloadSource(of: readEnd)
    let hasEnded = try writer.append(from: source, waiting: false)
    #expect(!hasEnded && writer.byteCount == 64)
    let endsThen = try writer.append(from: source, waiting: false)
    #expect(endsThen && writer.byteCount == 100)
    try writer.commit()
    #expect(try store.load("key")?.payload == Data(repeating: 7, count: 100))
  }

  /// A41: a turn of a source ends after a mebibyte.
  @Test func aTurnTakesAMebibyte() throws {
    let store = try cache.store()
    let path = cache.outside.path.appending("file")
    try payload(3 << 20).write(to: URL(filePath: path.string))
    let source = try store.payloadSource(at: path, for: "key", waits: true)
    var writer = try store.openWriter(for: "key")
    let hasEnded = try writer.append(from: source, waiting: false)
    #expect(!hasEnded && writer.byteCount == 1 << 20)
    writer.discard()
  }

  /// An unreadable source is an error of the store that reads it.
  @Test func aFailedReadNamesTheKey() throws {
    let store = try cache.store()
    var writer = try store.openWriter(for: "key")
    let source = store.payloadSource(of: FileDescriptor(rawValue: -1))
    var failure: BlobStoreError?
    do {
      try writer.append(from: source, waiting: true)
    } catch {
      failure = error
    }
    #expect(failure?.key == "key" && failure?.operation == "store" && failure?.errno == .badFileDescriptor)
    writer.discard()
  }

  /// Y2: a source that fails in the middle leaves nothing of the new blob; only visible writing removes the old one.
  @Test(arguments: [BlobStore.Visibility.afterCommit, .whileWriting])
  func aSourceThatFailsLeavesNothing(visibility: BlobStore.Visibility) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    var ends: [CInt] = [-1, -1]
    try check(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends), "socketpair")
    let (readEnd, writeEnd) = (FileDescriptor(rawValue: ends[0]), FileDescriptor(rawValue: ends[1]))
    defer { try? readEnd.close() }
    // Unread data at the time of the close causes an error after the sent bytes.
    _ = try readEnd.writeAll([1])
    try writeEnd.closeAfter { _ = try writeEnd.writeAll(payload(1000)) }
    let error = expect(.fileSystem) { try store.store(contentsOf: readEnd, for: "key", visibility: visibility) }
    #expect(error?.errno == .connectionReset && error?.key == "key" && error?.operation == "store")
    #expect(try store.load("key")?.payload == (visibility == .afterCommit ? payload(5) : nil))
    #expect(try cache.files() == (visibility == .afterCommit ? ["ke/key"] : []))
  }

  /// Y31b: with durability, the blob is on the medium before its source file is removed.
  @Test(arguments: [BlobStore.Durability.full, .automatic], [BlobStore.Visibility.afterCommit, .whileWriting])
  func aMovedFileGoesAfterTheSync(durability: BlobStore.Durability, visibility: BlobStore.Visibility) throws {
    let store = try cache.store(files: trace.files) { $0.durability = durability }
    let path = cache.outside.path.appending("file")
    try payload(10).write(to: URL(filePath: path.string))
    let syncs = Lock<[Bool]>([])
    trace.onCall { call, location in
      if call == .sync { syncs.withLock { $0.append(true) } }
      if call == .unlink, location == path { syncs.withLock { $0.append(false) } }
      return nil
    }
    try store.store(
      contentsOf: path, for: "key", locks: durability == .full ? .none : .one, visibility: visibility, moving: true)
    trace.onCall(nil)
    // The syncs are those of the record, its directory and the parent directory.
    let order = syncs.withLock { $0 }
    #expect(order.filter { $0 }.count >= 3 && order.last == false && order.filter { !$0 }.count == 1)
  }

  /// Y33: a blob that is visible during its store is an ordinary blob afterwards, and its source file is removed.
  @Test(arguments: [true, false]) func aVisibleStore(isPath: Bool) throws {
    let store = try cache.store()
    let path = cache.outside.path.appending("file")
    try payload(600_000).write(to: URL(filePath: path.string))
    if isPath {
      #expect(try store.store(contentsOf: path, for: "key", visibility: .whileWriting) == 600_000)
    } else {
      let input = try FileDescriptor.open(path, .readOnly, options: .closeOnExec)
      try input.closeAfter {
        let stored = try store.store(contentsOf: input, for: "key", visibility: .whileWriting)
        #expect(stored == 600_000)
      }
    }
    #expect(try store.load("key")?.payload == payload(600_000))
    #expect(FileManager.default.fileExists(atPath: path.string))
  }
}
