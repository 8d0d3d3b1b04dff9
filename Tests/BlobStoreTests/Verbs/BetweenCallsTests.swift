import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
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

  // MARK: Storing

  /// S2, P9: somebody else locks the record whenever this one is being written to the medium. After some tries, they wait.
  @Test func aStoreThatKeepsLocksComesToAnEnd() throws {
    let store = try tracedStore { $0.durability = .full }
    let other = try cache.store { $0.access.lockTimeout = .zero }
    try store.store(payload(5), for: "key", locks: .one)
    let syncs = Lock(0)
    trace.onCall { call, path in
      guard call == .sync, !path.string.hasSuffix("/cache"), !path.string.hasSuffix("/ke") else { return nil }
      syncs.withLock { $0 += 1 }
      // Refused while the store has the stripe.
      if syncs.withLock({ $0 }) < 50 { _ = try? other.lock("key") }
      return nil
    }
    try store.store(payload(6), for: "key", locks: .keep)
    trace.onCall(nil)
    #expect(syncs.withLock { $0 } == 4)
    #expect(try store.header(for: "key")?.refCount == 4)
    #expect(try store.load("key")?.payload == payload(6))
  }

  /// C4: a collection comes between the calls that make a temporary file, and takes what nobody has locked yet. The store,
  /// which cannot read its input again, makes another.
  @Test(arguments: [SystemCall.lock, .status, .write], [true, false])
  func aTemporaryFileThatACollectionTakesIsMadeAgain(call: SystemCall, isStreamed: Bool) throws {
    let store = try tracedStore { $0.recycling = .off }
    let other = try cache.store()
    let taken = Lock<Int64?>(nil)
    trace.onCall { found, path in
      if found == .openUnnamed { return .fail(.notSupported) }
      guard found == call, path.lastComponent?.string.hasPrefix(".tmp-") == true, taken.withLock({ $0 == nil }) else {
        return nil
      }
      let report = try? other.collect()
      taken.withLock { $0 = report?.temporary }
      return nil
    }
    if isStreamed {
      // What comes through a pipe cannot be read again, so no second try hides the loss of the file.
      let (readEnd, writeEnd) = try FileDescriptor.pipe()
      Thread.detachNewThread {
        // What is not read to its end shows as another payload.
        try? writeEnd.closeAfter { _ = try writeEnd.writeAll(payload(300_000)) }
      }
      try readEnd.closeAfter { _ = try store.store(contentsOf: readEnd, for: "key") }
    } else {
      try store.store(payload(300_000), for: "key")
    }
    #expect(taken.withLock { $0 } == (call == .lock ? 1 : 0))
    #expect(try cache.store().load("key")?.payload == payload(300_000))
    #expect(try cache.files() == ["ke/key"])
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

  /// Another load has moved the update time already: there is nothing to write.
  @Test func recordThatSomebodyElseTouchesIsNotWrittenAgain() throws {
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 5)
    let other = try cache.store()
    before(.lockByte, at: "/.blobcache") { try other.touch("key") }
    _ = trace.take()
    #expect(try store.load("key") != nil)
    #expect(trace.count(.lockByte) == 1)
    #expect(trace.count(.write) == 0)
    #expect(try cache.header("ke/key").updateTime == UInt64(cache.now))
  }

  /// A subdirectory that vanishes whenever a record is written is given up in the end.
  @Test func directoryThatVanishesForEverIsAnError() throws {
    let store = try tracedStore()
    trace.onCall { call, _ in
      [.linkUnnamed, .renameNoReplace, .rename].contains(call) ? .fail(.noSuchFileOrDirectory) : nil
    }
    #expect(expect(.fileSystem) { try store.store(payload(1), for: "key") }?.errno == .noSuchFileOrDirectory)
    trace.onCall(nil)
    #expect(try cache.files().isEmpty)
  }

  @Test(arguments: [true, false]) func temporaryNamesThatAreAllTakenAreAnError(fromTheStart: Bool) throws {
    let store = try tracedStore()
    try store.store(payload(1), for: "key")
    trace.onCall { call, _ in
      if fromTheStart, call == .openUnnamed { return .fail(.notSupported) }
      return call == .open || call == .linkUnnamed ? .fail(.fileExists) : nil
    }
    #expect(expect(.fileSystem) { try store.store(payload(2), for: "key") }?.errno == .fileExists)
    trace.onCall(nil)
    #expect(try store.load("key")?.payload == payload(1))
    #expect(try cache.files() == ["ke/key"])
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

  /// Without renameat2(2), it is published by a link, and its temporary name goes.
  @Test func controlFileIsLinkedWhereItCannotBeRenamed() throws {
    let store = try tracedStore()
    trace.onCall { call, _ in call == .renameNoReplace ? .fail(.invalidArgument) : nil }
    try store.store(payload(5), for: "key", locks: .one)
    trace.onCall(nil)
    #expect(try cache.state(".blobcache")?.links == 1)
    #expect(try cache.files() == ["ke/key"])
    #expect(try cache.store().generation(of: "key") != nil)
  }

  /// A control file that cannot be opened keeps changes from being made, and loads from waiting for a lock only.
  @Test func controlFileThatCannotBeOpenedIsAnErrorOfChangesAlone() throws {
    try cache.store().store(payload(5), for: "key")
    let store = try tracedStore()
    trace.onCall { call, path in
      call == .openBeneath && path.lastComponent == ".blobcache" ? .fail(.permissionDenied) : nil
    }
    cache.clock.advance(by: 5)
    #expect(try store.load("key")?.payload == payload(5))
    #expect(expect(.fileSystem) { try store.lock("key") }?.errno == .permissionDenied)
  }

  /// As long as somebody holds a byte of a damaged control file, it stays: its locks are the ones that count.
  @Test func damagedControlFileStaysWhileItIsLocked() throws {
    try cache.write(record(RecordHeader(updateTime: UInt64(cache.now), payloadSize: 0), [1]), to: "ke/key")
    let damaged = [UInt8](repeating: 0, count: 5000)
    try cache.write(damaged, to: ".blobcache")
    let store = try tracedStore()
    let hasRefused = Lock(false)
    trace.onCall { call, path in
      // Of the bytes that are locked, all come first, and then the key's.
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

  /// Of our version, but cut short: what is missing must not be mapped.
  @Test func controlFileThatIsTooShortIsReplaced() throws {
    try cache.store().store(payload(5), for: "key")
    let whole = try cache.bytes(".blobcache")
    // Another file: the one that is mapped must keep its length.
    try removeFile(".blobcache")()
    try cache.write(Array(whole.prefix(5000)), to: ".blobcache")
    #expect(try cache.store().lock("key") == .done)
    #expect(try cache.bytes(".blobcache").count == whole.count)
    #expect(try cache.store().header(for: "key")?.refCount == 1)
  }

  /// Where memory cannot be shared, locks work and nothing is counted.
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

  /// A subdirectory that is never there to be opened is given up in the end: here for the copy of a record that has
  /// another name.
  @Test func subdirectoryThatCannotBeKeptIsAnError() throws {
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    try check(link(cache.path("ke/key"), cache.outside.path.string + "/backup"), "link")
    trace.onCall { call, path in
      call == .openDirectory && path.lastComponent == "ke" ? .fail(.noSuchFileOrDirectory) : nil
    }
    #expect(expect(.fileSystem) { try store.lock("key") }?.errno == .noSuchFileOrDirectory)
    trace.onCall(nil)
    #expect(try store.lock("key") == .done)
  }

  /// A collection takes a new temporary file for one that a dead writer has left, before it is locked, and is at it.
  @Test func temporaryFileThatACollectionHasLockedIsMadeAnew() throws {
    let store = try tracedStore()
    try store.store(payload(1), for: "key")
    trace.onCall { call, path in
      if call == .openUnnamed { return .fail(.notSupported) }
      guard call == .lock, path.lastComponent?.string.hasPrefix(".tmp-") == true else { return nil }
      return .fail(.wouldBlock)
    }
    #expect(expect(.fileSystem) { try store.store(payload(2), for: "key") }?.errno == .wouldBlock)
    #expect(try cache.files() == ["ke/key"])
    let refused = Lock(0)
    trace.onCall { call, path in
      guard call == .lock, path.lastComponent?.string.hasPrefix(".tmp-") == true else { return nil }
      return refused.withLock { refused in
        refused += 1
        return refused == 1 ? .fail(.wouldBlock) : nil
      }
    }
    try store.store(payload(3), for: "key")
    #expect(try store.load("key")?.payload == payload(3))
    #expect(try cache.files() == ["ke/key"])
  }

  /// The same, when the collection has removed it already.
  @Test func temporaryFileThatACollectionHasRemovedIsMadeAnew() throws {
    let store = try tracedStore()
    try store.store(payload(1), for: "key")
    let trace = trace
    trace.onCall { call, path in
      if call == .openUnnamed { return .fail(.notSupported) }
      guard call == .lock, path.lastComponent?.string.hasPrefix(".tmp-") == true else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try FileManager.default.removeItem(atPath: path.string) }
      return nil
    }
    _ = trace.take()
    try store.store(payload(2), for: "key")
    #expect(trace.count(.lock) == 2)
    #expect(try store.load("key")?.payload == payload(2))
    #expect(try cache.files() == ["ke/key"])
  }
}
