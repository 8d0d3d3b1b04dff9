import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Another process acts between two system calls of an operation on records.
@Suite struct BetweenCallsTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  // MARK: Storing

  /// S2, P9: another store locks the record whenever this one syncs. After several attempts, the store holds the
  /// stripe and the other store waits.
  @Test func aStoreThatKeepsLocksComesToAnEnd() throws {
    let store = try tracedStore { $0.durability = .full }
    let other = try cache.store { $0.access.lockTimeout = .zero }
    try store.store(payload(5), for: "key", locks: .one)
    let syncs = Lock(0)
    trace.onCall { call, path in
      guard call == .sync, !path.string.hasSuffix("/cache"), !path.string.hasSuffix("/ke") else { return nil }
      syncs.withLock { $0 += 1 }
      // Refused while the store holds the stripe.
      if syncs.withLock({ $0 }) < 50 { _ = try? other.lock("key") }
      return nil
    }
    try store.store(payload(6), for: "key", locks: .keep)
    trace.onCall(nil)
    #expect(syncs.withLock { $0 } == 4)
    #expect(try store.header(for: "key")?.refCount == 4)
    #expect(try store.load("key")?.payload == payload(6))
  }

  /// C4: a collection removes a temporary file between its creation and its lock. The store, which cannot read its
  /// input again, creates another one.
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
      // Data from a pipe cannot be read again, so a second attempt cannot hide the loss of the file.
      let (readEnd, writeEnd) = try FileDescriptor.pipe()
      Thread.detachNewThread {
        // Incomplete reading would result in a different payload.
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

  /// A collection locks a new temporary file before its writer does, because it assumes a dead writer.
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

  /// The collection has already removed the file.
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

  // MARK: Removing

  /// The record is removed before it is read again, or before it is unlinked.
  @Test(arguments: [SystemCall.takeStripe, .unlink]) func wipeMeetsARecordThatSomebodyElseRemoves(
    call: SystemCall
  ) throws {
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

  /// Unreadable files do not show whether the directory is a cache.
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

  /// Another load has already updated the time, so nothing is written.
  @Test func recordThatSomebodyElseTouchesIsNotWrittenAgain() throws {
    let store = try tracedStore()
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 5)
    let other = try cache.store()
    before(.takeStripe, at: "/.blobcache") { try other.touch("key") }
    _ = trace.take()
    #expect(try store.load("key") != nil)
    #expect(trace.count(.takeStripe) == 1)
    #expect(trace.count(.write) == 0)
    #expect(try cache.header("ke/key").updateTime == UInt64(cache.now))
  }

  /// A store fails if its subdirectory is removed before every attempt.
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

  /// Other processes create the subdirectory after the check, or remove it before it is opened.
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

  /// A subdirectory that cannot be opened after each creation is an error, here for the copy of a record with a
  /// second link.
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
}
