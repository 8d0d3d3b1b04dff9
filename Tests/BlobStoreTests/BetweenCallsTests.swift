import BlobRecord
import BlobStore
import Foundation
import Locks
import PosixFiles
import SystemPackage
import TestSupport
import Testing

/// What somebody else does between two system calls of an operation.
@Suite struct BetweenCallsTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func tracedStore(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
    try cache.store(files: trace.files, change)
  }

  /// Does something just before a call, the first time that it is made at a path with this ending.
  private func before(_ call: SystemCall, at suffix: String = "", _ action: @escaping @Sendable () throws -> Void) {
    let trace = trace
    trace.onCall { found, path in
      guard found == call, path.string.hasSuffix(suffix) else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try action() }
      return nil
    }
  }

  private func removeFile(_ file: String) -> @Sendable () throws -> Void {
    let path = cache.path(file)
    return { try FileManager.default.removeItem(atPath: path) }
  }

  // MARK: Removing

  /// Before the record is looked at again, and before it is unlinked.
  @Test(arguments: [SystemCall.lockByte, .unlink]) func wipeMeetsARecordThatSomebodyElseRemoves(call: SystemCall) throws
  {
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    before(call, removeFile("ke/key"))
    #expect(try store.removeAll(.unlocked).files == 0)
    #expect(try cache.files().isEmpty)
  }

  @Test func wipeMeetsATemporaryFileThatSomebodyElseRemoves() throws {
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    try cache.write([1, 2, 3], to: "ke/.tmp-1")
    before(.unlink, at: ".tmp-1", removeFile("ke/.tmp-1"))
    #expect(try store.removeAll(.all).files == 1)
  }

  /// Whether this is a cache is not known while what lies there cannot be read.
  @Test(arguments: [SystemCall.openDirectory, .openBeneath]) func wipeIsRefusedWhileNothingCanBeRead(
    call: SystemCall
  ) throws {
    try cache.write(record(RecordHeader(updateTime: 0, payloadSize: 0), [1]), to: "ke/key")
    let store = try tracedStore()
    let suffix = call == .openDirectory ? "/ke" : "/key"
    trace.onCall { found, path in found == call && path.string.hasSuffix(suffix) ? .fail(.ioError) : nil }
    let error = expect(.fileSystem) { try store.removeAll(.all) }
    #expect(error?.errno == .ioError)
    trace.onCall(nil)
    #expect(try cache.files() == ["ke/key"])
  }

  // MARK: Loading and storing

  @Test func fileThatIsCutShortWhileItIsReadIsDamaged() throws {
    let store = try tracedStore()
    try store.store(payload(2000), for: "key")
    let path = cache.path("ke/key")
    before(.read) { try check(truncate(path, 100), "truncate") }
    #expect(expect(.damaged) { _ = try store.load("key") }?.recordError?.code == 103)
  }

  /// A subdirectory that vanishes whenever a record is written is given up in the end.
  @Test func directoryThatVanishesForEverIsAnError() throws {
    let store = try tracedStore()
    trace.onCall { call, _ in call == .renameNoReplace || call == .rename ? .fail(.noSuchFileOrDirectory) : nil }
    #expect(expect(.fileSystem) { try store.store(payload(1), for: "key") }?.errno == .noSuchFileOrDirectory)
    trace.onCall(nil)
    #expect(try cache.files().isEmpty)
  }

  @Test func temporaryNamesThatAreAllTakenAreAnError() throws {
    let store = try tracedStore()
    trace.onCall { call, _ in call == .open ? .fail(.fileExists) : nil }
    #expect(expect(.fileSystem) { try store.store(payload(1), for: "key") }?.errno == .fileExists)
  }

  /// Others make the subdirectory between looking and making, or remove it between making and opening.
  @Test func subdirectoryThatOthersMakeOrRemoveIsFoundInTheEnd() throws {
    let store = try tracedStore()
    try store.store(payload(1), for: "first")
    let path = cache.path("ke")
    before(.makeDirectory, at: "/ke") { try check(mkdir(path, 0o700), "mkdir") }
    try store.store(payload(1), for: "key")
    try store.removeAll(.all)
    let opened = Lock(0)
    trace.onCall { call, found in
      guard call == .openDirectory, found.string == path else { return nil }
      let count = opened.withLock { count in
        count += 1
        return count
      }
      if count == 2 { #expect(rmdir(path) == 0) }
      return nil
    }
    try store.store(payload(2), for: "key")
    #expect(opened.withLock { $0 } > 2)
    #expect(try store.load("key")?.payload == payload(2))
  }

  // MARK: The control file

  /// A root that is there, and in which nothing can be made all the same.
  @Test func rootThatTakesNoFileIsAnError() throws {
    try cache.write(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1]), to: "ke/key")
    let store = try tracedStore()
    trace.onCall { call, _ in call == .open ? .fail(.noSuchFileOrDirectory) : nil }
    #expect(expect(.fileSystem) { try store.lock("key") }?.errno == .noSuchFileOrDirectory)
  }

  /// Another store makes the control file while this one waits for the directory's lock.
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
      // The first is for making the control file; where that has failed, the second is for doing without.
      if count == (isFull ? 2 : 1) { #expect(throws: Never.self) { try other.lock("key") } }
      return nil
    }
    #expect(try store.lock("key") == .done)
    #expect(try other.header(for: "key")?.refCount == 2)
    #expect(try cache.exists(".blobcache"))
  }

  /// Without renameat2(2) it is published by a link, and never over another.
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

  /// A damaged control file goes before its bytes are locked, or before it is looked at again.
  @Test(arguments: [SystemCall.openBeneath, .lockByte, .status])
  func damagedControlFileThatSomebodyElseRemovesIsMadeAgain(call: SystemCall) throws {
    let store = try tracedStore()
    try cache.write(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1]), to: "ke/key")
    try cache.write([UInt8](repeating: 0, count: 5000), to: ".blobcache")
    let path = cache.path(".blobcache")
    let isReplacing = Lock(false)
    trace.onCall { found, place in
      // The directory's lock is what replacing begins with.
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

  /// Where the control file cannot be mapped for any process, locks work and nothing is counted; where it is only this
  /// one that cannot, it changes nothing.
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
}
