import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Another process acts between two system calls that affect the control file, or one of these calls fails.
@Suite struct ControlFileBetweenCallsTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// The root exists, but no file can be created in it.
  @Test func rootThatTakesNoFileIsAnError() throws {
    try cache.write(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1]), to: "ke/key")
    let store = try tracedStore()
    trace.onCall { call, _ in call == .open ? .fail(.noSuchFileOrDirectory) : nil }
    #expect(expect(.fileSystem) { try store.lock("key") }?.errno == .noSuchFileOrDirectory)
  }

  /// Another store creates the control file while this one waits for the lock of the directory.
  @Test(arguments: [false, true]) func controlFileThatSomebodyElseMakesIsUsed(isFull: Bool) throws {
    try cache.write(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1]), to: "ke/key")
    let other = try cache.store()
    let locks = Lock(0)
    let root = cache.root
    let store = try tracedStore()
    trace.onCall { call, path in
      if call == .allocate, isFull { return .fail(.noSpace) }
      guard call == .lock, path == root else { return nil }
      let count = locks.withLock { count in
        count += 1
        return count
      }
      // The directory is locked first to create the control file and, if that fails, again instead of the file.
      if count == (isFull ? 2 : 1) { #expect(throws: Never.self) { try other.lock("key") } }
      return nil
    }
    #expect(try store.lock("key") == .done)
    #expect(try other.header(for: "key")?.refCount == 2)
    #expect(try cache.exists(".blobcache"))
  }

  /// Without renameat2(2), the control file is published by a link, which never replaces an existing file.
  @Test func controlFileThatSomebodyElseLinksIsUsed() throws {
    let other = try cache.store()
    try other.store(payload(5), for: "key")
    let content = try cache.bytes(".blobcache")
    let path = cache.path(".blobcache")
    try removeFile(".blobcache")()
    let store = try tracedStore()
    trace.onCall { call, _ in
      if call == .link { #expect(FileManager.default.createFile(atPath: path, contents: Data(content))) }
      return call == .renameNoReplace ? .fail(.invalidArgument) : nil
    }
    #expect(try store.lock("key") == .done)
    #expect(try store.header(for: "key")?.refCount == 1)
    #expect(try cache.files() == ["ke/key"])
  }

  /// A damaged control file is removed before its bytes are locked, or before it is checked again.
  @Test(arguments: [SystemCall.openBeneath, .lockByte, .status])
  func damagedControlFileThatSomebodyElseRemovesIsMadeAgain(call: SystemCall) throws {
    let store = try tracedStore()
    try cache.write(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1]), to: "ke/key")
    try cache.write([UInt8](repeating: 0, count: 5000), to: ".blobcache")
    let path = cache.path(".blobcache")
    let isReplacing = Lock(false)
    trace.onCall { found, place in
      // Replacing the file begins with the lock of the directory.
      if found == .lock { isReplacing.withLock { $0 = true } }
      guard found == call, place.string.hasSuffix(".blobcache"), isReplacing.withLock({ $0 }) else { return nil }
      if access(path, F_OK) == 0 { unlink(path) }
      isReplacing.withLock { $0 = false }
      return nil
    }
    #expect(try store.lock("key") == .done)
    trace.onCall(nil)
    #expect(try cache.store().header(for: "key")?.refCount == 1)
  }

  /// If no process can map the control file, locks work but nothing is counted. If only this process cannot map it,
  /// its changes fail.
  @Test(arguments: [Errno.operationNotSupportedByDevice, .noMemory]) func controlFileThatCannotBeMapped(
    errno: Errno
  ) throws {
    try cache.store().store(payload(5), for: "key")
    let store = try tracedStore()
    trace.onCall { call, _ in call == .map ? .fail(errno) : nil }
    guard errno == .operationNotSupportedByDevice else {
      #expect(expect(.fileSystem) { try store.lock("key") }?.errno == errno)
      return
    }
    #expect(try store.lock("key") == .done)
    #expect(try store.generation(of: "key") == nil)
    #expect(try store.usageEstimate() == nil)
    try store.store(payload(6), for: "key")
    try store.collect()
    #expect(try store.load("key")?.payload == payload(6))
  }

  /// Without renameat2(2), the control file is published by a link, and its temporary name is removed.
  @Test func controlFileIsLinkedWhereItCannotBeRenamed() throws {
    let store = try tracedStore()
    trace.onCall { call, _ in call == .renameNoReplace ? .fail(.invalidArgument) : nil }
    try store.store(payload(5), for: "key", locks: .one)
    trace.onCall(nil)
    #expect(try cache.state(".blobcache")?.links == 1)
    #expect(try cache.files() == ["ke/key"])
    #expect(try cache.store().generation(of: "key") != nil)
  }

  /// Changes fail if the control file cannot be opened; loads succeed and only skip updates that need a lock.
  @Test func controlFileThatCannotBeOpenedIsAnErrorOfChangesAlone() throws {
    try cache.store().store(payload(5), for: "key")
    let store = try tracedStore()
    trace.onCall { call, path in
      call == .openBeneath && path.lastComponent == ".blobcache" ? .fail(.permissionDenied) : nil
    }
    cache.clock.advance(by: 5)
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try store.usageEstimate() == nil)
    #expect(expect(.fileSystem) { try store.lock("key") }?.errno == .permissionDenied)
  }

  /// A damaged control file is not replaced while a process holds a lock on one of its bytes.
  @Test func damagedControlFileStaysWhileItIsLocked() throws {
    try cache.write(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1]), to: "ke/key")
    let damaged = [UInt8](repeating: 0, count: 5000)
    try cache.write(damaged, to: ".blobcache")
    let store = try tracedStore()
    let hasRefused = Lock(false)
    trace.onCall { call, path in
      // The first lock is of all bytes, the second of the key's byte.
      guard call == .lockByte, path.lastComponent == ".blobcache" else { return nil }
      return hasRefused.withLock { hasRefused in
        defer { hasRefused = true }
        return hasRefused ? nil : .fail(.wouldBlock)
      }
    }
    #expect(try store.lock("key") == .done)
    #expect(try cache.bytes(".blobcache") == damaged)
    try store.unlock("key")
    #expect(try cache.bytes(".blobcache") != damaged)
  }

  /// A truncated control file of the current version must not be mapped.
  @Test func controlFileThatIsTooShortIsReplaced() throws {
    try cache.store().store(payload(5), for: "key")
    let whole = try cache.bytes(".blobcache")
    // A new file, because a mapped file must not be truncated.
    try removeFile(".blobcache")()
    try cache.write(Array(whole.prefix(5000)), to: ".blobcache")
    #expect(try cache.store().lock("key") == .done)
    #expect(try cache.bytes(".blobcache").count == whole.count)
    #expect(try cache.store().header(for: "key")?.refCount == 1)
  }

  /// Where memory cannot be shared, locks work but nothing is counted.
  @Test(arguments: [MappingHazard.incoherent, .needsRoom]) func controlFileIsNotMappedWhereThatIsAHazard(
    hazard: MappingHazard
  ) throws {
    let store = try tracedStore()
    trace.onCall { call, _ in call == .volumeStatus ? .answer(Int(hazard.rawValue)) : nil }
    try store.store(payload(5), for: "key")
    #expect(try store.lock("key") == .done)
    #expect(try store.generation(of: "key") == nil)
    #expect(try store.usageEstimate() == nil)
    #expect(trace.count(.map) == 0)
    #expect(try store.load("key")?.payload == payload(5))
  }

  @Test func controlFileThatIsNoFileIsAnErrorOfChanges() throws {
    try cache.makeDirectory(".blobcache")
    let store = try tracedStore()
    #expect(expect(.foreignFile) { try store.store(payload(5), for: "key") }?.path?.lastComponent == ".blobcache")
    #expect(try cache.exists(".blobcache"))
  }
}
