import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Y13 to Y18: blobs that are visible while they are written.
@Suite struct VisibleWriterTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func open(
    _ store: BlobStore, locks: BlobStore.LockPolicy = .none, expectedSize: Int64? = nil, extendedData: Data? = nil
  ) throws -> BlobWriter {
    try store.openWriter(
      for: "key", ttl: .seconds(77), locks: locks, expectedSize: expectedSize, extendedData: extendedData,
      visibility: .whileWriting)
  }

  private func commit(_ writer: consuming BlobWriter) -> BlobStoreError? {
    do {
      try writer.commit()
      return nil
    } catch {
      return error
    }
  }

  // MARK: The life of a stream

  private static let sizes = [0, 1, 63, 64, 65, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 1]

  /// Y13, Y14, Y20: a stream is reported as busy, and is an ordinary record after the commit, also for followers.
  @Test(arguments: sizes, [true, false]) func isBusyAndThenWhole(
    byteCount: Int, isExpected: Bool
  ) throws {
    let store = try cache.store()
    for data in [nil, payload(20, 3)] {
      try store.store(payload(byteCount), for: "key", ttl: .seconds(77), locks: .one, extendedData: data)
      let stored = try cache.bytes("ke/key")
      var writer = try open(store, locks: .one, expectedSize: isExpected ? Int64(byteCount) : nil, extendedData: data)
      let follower = try #require(try store.openFollower(for: "key"))
      for piece in [payload(byteCount).prefix(byteCount / 3), payload(byteCount).dropFirst(byteCount / 3)] {
        let error = expect(.damaged) { _ = try store.load("key") }
        #expect(error?.recordError == .recordIsStreamAndBusy)
        try writer.append(piece)
      }
      #expect(try cache.header("ke/key").flags.contains(.streamIncomplete))
      let header = try writer.commit()
      #expect(try header == cache.header("ke/key"))
      #expect(try cache.bytes("ke/key") == stored)
      #expect(try store.load("key")?.payload == payload(byteCount))
      var followed = Data()
      try follower.forEachPiece(pieceSize: 1000) { piece in followed.append(piece.withUnsafeBytes { Data($0) }) }
      #expect(followed == payload(byteCount))
      #expect(try cache.files() == ["ke/key"])
      try store.checkInvariants()
      _ = try store.remove("key")
    }
  }

  @Test func referenceFormatHasNoChecksum() throws {
    let store = try cache.store { $0.format = .reference }
    var writer = try store.openWriter(for: "key", visibility: .whileWriting)
    try writer.append(payload(10))
    cache.clock.advance(by: 5)
    let header = try writer.commit()
    #expect(header == RecordHeader(updateTime: UInt64(cache.now), payloadSize: 10))
    #expect(try store.load("key")?.payload == payload(10))
  }

  /// Y13: the lifetime begins with the commit, so a stream does not expire.
  @Test func aStreamDoesNotExpire() throws {
    let store = try cache.store()
    var writer = try open(store)
    try writer.append(payload(10))
    cache.clock.advance(by: 1_000_000)
    #expect(try store.collect().isWithoutRemovals)
    let header = try writer.commit()
    #expect(header.updateTime == UInt64(cache.now) && header.ttl == 77)
    cache.clock.advance(by: 78)
    #expect(try store.load("key") == nil)
  }

  /// Y13: kept locks are taken from the record that the stream replaces.
  @Test func locksAreThoseOfTheBeginning() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key", locks: .one)
    let writer = try open(store, locks: .keepOrOne)
    for change in [{ try store.lock("key") }, { try store.unlock("key") }, { try store.touch("key") }] {
      let error = expect(.damaged) { _ = try change() }
      #expect(error?.recordError == .recordIsStreamAndBusy)
    }
    #expect(try writer.commit().refCount == 1)
    try store.checkInvariants()
  }

  /// Y14: a stream that is not committed leaves nothing.
  @Test(arguments: ["dropped", "discarded", "too short", "too long"]) func whatIsGivenUpLeavesNothing(
    way: String
  ) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    do {
      var writer = try open(store, expectedSize: 20)
      try writer.append(payload(10))
      switch way {
      case "dropped": break
      case "discarded": writer.discard()
      case "too short": #expect(commit(writer)?.code == .sizeMismatch)
      default:
        expect(.sizeMismatch) { try writer.append(payload(11)) }
        #expect(commit(writer)?.code == .sizeMismatch)
      }
    }
    #expect(try cache.files().isEmpty)
    #expect(try store.load("key") == nil)
    try store.collect()
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate())
  }

  /// S6, Y3: a refused writer leaves the old blob unchanged.
  @Test(arguments: [-1, Int64.max - 63, .max]) func aRefusalLeavesTheOldBlob(expectedSize: Int64) throws {
    let store = try cache.store { $0.limits.payload = .max }
    try store.store(payload(5), for: "key")
    expect(expectedSize < 0 ? .sizeMismatch : .payloadTooLarge) { _ = try open(store, expectedSize: expectedSize) }
    #expect(try store.load("key")?.payload == payload(5))
    #expect(try cache.files() == ["ke/key"])
  }

  // MARK: Concurrent changes

  /// Y15: a concurrently stored blob is not replaced.
  @Test(arguments: [true, false]) func aStoreMeanwhileWins(isCommitted: Bool) throws {
    let store = try cache.store()
    var writer = try open(store)
    try writer.append(payload(10))
    try store.store(payload(7, 2), for: "key", locks: .keep)
    try writer.append(payload(10))
    if isCommitted {
      let error = commit(writer)
      #expect(error?.code == .superseded && error?.key == "key" && error?.operation == "store")
    } else {
      writer.discard()
    }
    #expect(try store.load("key")?.payload == payload(7, 2))
    #expect(try cache.files() == ["ke/key"])
    try store.checkInvariants()
  }

  /// Y15: a concurrently removed key stays removed.
  @Test(arguments: ["remove", "removeAll", "file"]) func aRemovalMeanwhileWins(way: String) throws {
    let store = try cache.store()
    var writer = try open(store)
    try writer.append(payload(10))
    switch way {
    case "remove": #expect(try store.remove("key") == .done)
    case "removeAll": #expect(try store.removeAll(.all).files == 1)
    default: try removeFile("ke/key")()
    }
    try writer.append(payload(10))
    #expect(commit(writer)?.code == .superseded)
    #expect(try cache.files().isEmpty)
  }

  /// Y15: of two streams of a key, the later one wins.
  @Test func theLaterStreamWins() throws {
    let store = try cache.store()
    var first = try open(store)
    var second = try open(store)
    try first.append(payload(10, 1))
    try second.append(payload(20, 2))
    #expect(commit(first)?.code == .superseded)
    #expect(commit(second) == nil)
    #expect(try store.load("key")?.payload == payload(20, 2))
    #expect(try store.traffic().stores == 1)
  }

  /// Y15, P7: the root was replaced by another directory.
  @Test(arguments: [true, false]) func anotherRootIsLeftAlone(isCommitted: Bool) throws {
    let store = try cache.store()
    var writer = try open(store)
    try writer.append(payload(10))
    try check(rename(cache.path(""), cache.outside.path.string + "/moved"), "rename")
    try cache.makeDirectory("")
    // Long enough for the next check of the root.
    Thread.sleep(forTimeInterval: 1.1)
    try store.store(payload(7), for: "key")
    if isCommitted {
      let error = commit(writer)
      #expect(error?.code == .fileSystem && error?.errno == .noSuchFileOrDirectory)
    } else {
      writer.discard()
    }
    #expect(try store.load("key")?.payload == payload(7))
    try store.checkInvariants()
  }

  /// I1, Y20: the end of the payload is written while the key is held, like each change of a record in place.
  @Test func theEndOfThePayloadIsToldUnderTheKey() throws {
    let store = try tracedStore()
    let other = try cache.store { $0.access.lockTimeout = .zero }
    var writer = try open(store, extendedData: payload(9))
    try writer.append(payload(10))
    before(.write) { expect(.busy) { _ = try other.lock("key") } }
    try writer.commit()
    #expect(try other.lock("key") == .done)
  }

  // MARK: Other operations on a stream

  /// Y16, C5a: a stream is not damage, and is not removed by collections, policies or `removeAll(.unlocked)`.
  @Test(arguments: BlobStore.DamagePolicy.allCases) func aStreamIsLeftAlone(policy: BlobStore.DamagePolicy) throws {
    let store = try cache.store {
      $0.damagePolicy = policy
      $0.limits.size = 1000
    }
    var writer = try open(store)
    try writer.append(payload(900))
    try cache.setModified("ke/key", 0)
    expect(.damaged) { _ = try store.load("key") }
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    let report = try store.collect(options)
    #expect(report.isWithoutRemovals && report.examined == 1 && report.bytesAfter == 64)
    #expect(try store.removeAll(.unlocked).files == 0)
    let verified = try store.verify(repairing: .remove)
    #expect(verified.damagedFiles == 0 && verified.temporaryFiles == 1 && verified.repairedFiles == 0)
    let usage = try store.usage()
    #expect(usage.temporaryFiles == 1 && usage.temporaryBytes == 964 && usage.bytes == 0 && usage.damagedFiles == 0)
    let entries = try Array(store.records())
    #expect(entries.map(\.state) == [.streaming] && entries.map(\.damage) == [.recordIsStreamAndBusy])
    #expect(entries.map(\.key) == ["key"])
    #expect(try store.inspect(FilePath(cache.path("ke/key"))).state == .streaming)
    try store.checkInvariants()
    try writer.commit()
    #expect(try store.usageEstimate()?.bytes == 964)
  }

  /// M1, M4: the bytes are counted with the commit, which makes space like a store.
  @Test func theLimitIsKeptAtTheCommit() throws {
    let store = try cache.store {
      $0.limits.size = 3000
      $0.limits.collectsOnStore = true
      $0.recycling = .off
    }
    for key in 0..<4 {
      try store.store(payload(436), for: BlobKey("\(key)"), ttl: .seconds(1000))
      cache.clock.advance(by: 1)
    }
    store.waitForCollection()
    var writer = try open(store)
    try writer.append(payload(2000))
    store.waitForCollection()
    #expect(try store.contains("0"))
    try writer.commit()
    store.waitForCollection()
    #expect(try !store.contains("0") && store.contains("key"))
    try store.checkInvariants()
  }

  /// M3: if locked blobs leave no space, the commit is refused and nothing remains.
  @Test func aFullDirectoryRefusesTheCommit() throws {
    let store = try cache.store {
      $0.limits.size = 20_000_000
      $0.limits.collectsOnStore = true
    }
    let big = payload(1_000_000)
    // One more would exceed the bound, which is the limit and a fifth, less a hundredth.
    for key in 0..<23 {
      try store.store(big, for: BlobKey("\(key)"), locks: .one)
      store.waitForCollection()
    }
    var writer = try open(store)
    try writer.append(big)
    #expect(commit(writer)?.code == .limitReached)
    store.waitForCollection()
    #expect(try !cache.exists("ke/key"))
    try store.checkInvariants()
  }

  // MARK: Failing calls

  /// Y18: one call after the other fails. The key has the whole blob or none, and no file remains.
  @Test(arguments: [BlobStore.Durability.none, .full], [nil, payload(9)]) func aFailingCallLeavesNothing(
    durability: BlobStore.Durability, extendedData: Data?
  ) throws {
    let store = try cache.store(files: trace.files) { $0.durability = durability }
    var call = 0
    var completed = false
    while !completed {
      call += 1
      try store.store(payload(10), for: "key", locks: .one)
      _ = trace.take()
      let (failing, trace) = (call, trace)
      trace.onCall { made, _ in
        guard ![.close, .freeStripe].contains(made) else { return nil }
        let count = trace.count { ![.close, .freeStripe].contains($0.call) }
        return count == failing ? .fail(.ioError) : nil
      }
      do throws(BlobStoreError) {
        var writer = try opened(store, extendedData)
        try writer.append(payload(20))
        try writer.commit()
        trace.onCall(nil)
        completed = trace.count { ![.close, .freeStripe].contains($0.call) } < failing
        #expect(try store.load("key")?.payload == payload(20))
      } catch {
        trace.onCall(nil)
        #expect([.fileSystem, .foreignFile].contains(error.code) && error.key == "key", "\(error)")
        let found = try store.load("key")?.payload
        let mayBeThere = [payload(10), durability == .full ? payload(20) : payload(10)]
        #expect(found == nil || mayBeThere.contains(found ?? Data()), "call \(call): \(error)")
      }
      #expect(try cache.files().isSubset(of: ["ke/key"]), "call \(call)")
      try store.checkInvariants()
    }
    #expect(call > 10)
  }

  private func opened(_ store: BlobStore, _ extendedData: Data?) throws(BlobStoreError) -> BlobWriter {
    try store.openWriter(for: "key", ttl: .seconds(77), extendedData: extendedData, visibility: .whileWriting)
  }
}
