import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Y19 to Y24: blobs that are read while they are written.
///
/// A second store acts like another process, because it shares only the files.
@Suite(.timeLimit(.minutes(30))) struct FollowerTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// The store of a follower: the writer's store or another one.
  enum Place: CaseIterable { case here, elsewhere }

  private func stores(_ place: Place) throws -> (writer: BlobStore, follower: BlobStore) {
    let writer = try cache.store()
    return (writer, place == .here ? writer : try cache.store())
  }

  private func open(_ store: BlobStore, expectedSize: Int64? = nil, extendedData: Data? = nil) throws -> BlobWriter {
    try store.openWriter(
      for: "key", ttl: .seconds(77), expectedSize: expectedSize, extendedData: extendedData, visibility: .whileWriting)
  }

  /// Reads a complete blob in pieces as they become available.
  private func follow(_ follower: BlobFollower, by pieceSize: Int = 256 << 10) throws -> (bytes: Data, RecordHeader) {
    var bytes = Data()
    let header = try follower.forEachPiece(pieceSize: pieceSize) { piece in
      bytes.append(piece.withUnsafeBytes { Data($0) })
    }
    return (bytes, header)
  }

  private func read(_ follower: BlobFollower, at offset: Int64, atMost count: Int = 1 << 16) throws -> Data {
    var memory = [UInt8](repeating: 0, count: count)
    var span = memory.mutableSpan
    var bytes = span.mutableBytes
    let read = try follower.read(at: offset, into: &bytes)
    return Data(memory.prefix(read))
  }

  private func commit(_ writer: consuming BlobWriter) -> BlobStoreError.Code? {
    do {
      try writer.commit()
      return nil
    } catch {
      return error.code
    }
  }

  // MARK: The life of a follower

  /// Y19, Y20: each piece is read before the next one is written, and the follower ends with the commit.
  @Test(arguments: Place.allCases, [nil, payload(30, 3)]) func piecesAreReadAsTheyCome(
    place: Place, extendedData: Data?
  ) throws {
    let (store, other) = try stores(place)
    for isExpected in [true, false] {
      var writer = try open(store, expectedSize: isExpected ? 5000 : nil, extendedData: extendedData)
      let follower = try #require(try other.openFollower(for: "key"))
      #expect(follower.key == "key" && follower.byteCount == 0 && follower.header == nil)
      var offset: Int64 = 0
      for piece in [payload(1, 1), payload(999, 2), payload(4000, 3)] {
        try writer.append(piece)
        #expect(try read(follower, at: offset) == piece)
        offset += Int64(piece.count)
        #expect(follower.byteCount == offset)
      }
      let header = try writer.commit()
      #expect(try read(follower, at: offset).isEmpty)
      #expect(follower.header == header && follower.byteCount == 5000)
      let whole = try follow(follower, by: 1700)
      #expect(whole.bytes == payload(1, 1) + payload(999, 2) + payload(4000, 3) && whole.1 == header)
      let error = expect(.invalidRange) { _ = try read(follower, at: 5001) }
      #expect(error?.key == "key" && error?.operation == "load")
      expect(.invalidRange) { _ = try read(follower, at: -1) }
    }
  }

  /// Y19: several readers, each in its own thread, and a slow writer.
  @Test(arguments: Place.allCases) func manyFollowersReadTheWholeBlob(place: Place) throws {
    let (store, other) = try stores(place)
    var writer = try open(store)
    let found = Lock<[Data]>([])
    let threads = try (0..<8).map { index in
      let follower = try #require(try other.openFollower(for: "key", timeout: .seconds(500)))
      return try OwnedThread {
        #expect(throws: Never.self) {
          let bytes = try follow(follower, by: 1000 << index).bytes
          found.withLock { $0.append(bytes) }
        }
      }
    }
    let bytes = payload(300_000)
    for start in stride(from: 0, to: bytes.count, by: 7000) {
      try writer.append(Data(bytes[start..<min(start + 7000, bytes.count)]))
    }
    try writer.commit()
    for thread in threads { thread.join() }
    #expect(found.withLock { $0 } == Array(repeating: bytes, count: 8))
  }

  /// Y19: a complete blob is read to its end without waiting.
  @Test func aWholeBlobEnds() throws {
    let store = try cache.store()
    #expect(try store.openFollower(for: "key") == nil)
    try store.store(payload(1000), for: "key")
    let follower = try #require(try store.openFollower(for: "key", timeout: .zero))
    #expect(follower.byteCount == 1000 && follower.header != nil)
    #expect(try follow(follower).bytes == payload(1000))
    try store.store(Data(), for: "key")
    #expect(try follow(try #require(try store.openFollower(for: "key", timeout: .zero))).bytes == Data())
  }

  /// Y20: an empty payload, with and without extended data after it.
  @Test(arguments: Place.allCases, [nil, payload(30, 3)]) func anEmptyBlobEnds(
    place: Place, extendedData: Data?
  ) throws {
    let (store, other) = try stores(place)
    let writer = try open(store, extendedData: extendedData)
    let follower = try #require(try other.openFollower(for: "key"))
    try writer.commit()
    #expect(try follow(follower).bytes == Data())
  }

  /// Y20: bytes that are written after the payload before the commit are not part of the payload.
  @Test(arguments: [Int64?.none, 100]) func theExtensionIsNoPayload(expectedSize: Int64?) throws {
    let store = try cache.store(files: trace.files)
    let other = try cache.store()
    var writer = try open(store, expectedSize: expectedSize, extendedData: payload(500))
    try writer.append(payload(100))
    let follower = try #require(try other.openFollower(for: "key", timeout: .milliseconds(30)))
    let seen = Lock<[Int64]>([])
    // The extension is written before the lock for the last header is taken.
    trace.onCall { call, _ in
      if call == .takeStripe {
        expect(.streamStalled) { _ = try read(follower, at: 100) }
        seen.withLock { $0.append(follower.byteCount) }
      }
      return nil
    }
    try writer.commit()
    trace.onCall(nil)
    #expect(seen.withLock { $0 }.contains(100) && seen.withLock { $0 }.allSatisfy { $0 == 100 })
    #expect(try follow(follower).bytes == payload(100))
  }

  // MARK: Writers that stall or stop

  /// Y21: a stalled writer results in an error, after which the follower can continue.
  @Test(arguments: Place.allCases) func aStalledWriterIsAnError(place: Place) throws {
    let (store, other) = try stores(place)
    var writer = try open(store)
    try writer.append(payload(10))
    let follower = try #require(try other.openFollower(for: "key", timeout: .milliseconds(20)))
    #expect(follower.timeout == .milliseconds(20))
    #expect(try read(follower, at: 0) == payload(10))
    let error = expect(.streamStalled) { _ = try read(follower, at: 10) }
    #expect(error?.key == "key" && error?.operation == "load")
    try writer.append(payload(20, 2))
    #expect(try read(follower, at: 10) == payload(20, 2))
    try writer.commit()
    #expect(try follow(follower).bytes == payload(10) + payload(20, 2))
  }

  /// Y22: a stream that is not committed is never reported as complete.
  @Test(arguments: Place.allCases, ["discarded", "dropped", "failed"]) func aBlobGivenUpIsAnError(
    place: Place, way: String
  ) throws {
    let (store, other) = try stores(place)
    let follower: BlobFollower
    do {
      var writer = try open(store, expectedSize: 20)
      follower = try #require(try other.openFollower(for: "key"))
      try writer.append(payload(10))
      #expect(try read(follower, at: 0) == payload(10))
      switch way {
      case "discarded": writer.discard()
      case "failed": #expect(commit(writer) == .sizeMismatch)
      default: break
      }
    }
    // The existing bytes can still be read.
    #expect(try read(follower, at: 5) == payload(10).dropFirst(5))
    for _ in 0..<2 { expect(.streamBroken) { _ = try read(follower, at: 10) } }
    #expect(throws: BlobStoreError.self) { _ = try follow(follower) }
    #expect(try other.openFollower(for: "key") == nil)
  }

  /// Y22: pending waits end, too.
  @Test(arguments: Place.allCases, [true, false]) func waitsEndWithTheWriter(
    place: Place, isCommitted: Bool
  ) async throws {
    let (store, other) = try stores(place)
    let writer = try open(store)
    let follower = try #require(try other.openFollower(for: "key", timeout: .seconds(500)))
    let answers = AsyncStream<Result<FollowedProgress, any Error>>.makeStream()
    for _ in 0..<10 { _ = follower.whenReady(beyond: 0) { answers.continuation.yield($0) } }
    if isCommitted { try writer.commit() } else { writer.discard() }
    var count = 0
    for await answer in answers.stream {
      count += 1
      switch answer {
      case .success(let progress): #expect(isCommitted && progress.header?.payloadSize == 0)
      case .failure(let error): #expect(!isCommitted && (error as? BlobStoreError)?.code == .streamBroken)
      }
      if count == 10 { break }
    }
  }

  /// Y22: an abandoned stream is damage.
  @Test func anAbandonedStreamIsNotFollowed() throws {
    let store = try cache.store { $0.damagePolicy = .remove }
    try store.store(payload(100), for: "key", ttl: .never)
    try cache.changeHeader("ke/key") { $0.flags.insert(.streamIncomplete) }
    let error = expect(.damaged) { _ = try store.openFollower(for: "key") }
    #expect(error?.recordError == .abandonedStream)
    #expect(try store.openFollower(for: "key") == nil)
  }

  // MARK: Concurrent changes

  /// Y23: a blob that was replaced or removed is followed to its end.
  @Test(arguments: Place.allCases, ["stored", "removed", "wiped"]) func aFollowerKeepsItsBlob(
    place: Place, way: String
  ) throws {
    let (store, other) = try stores(place)
    var writer = try open(store, extendedData: payload(9))
    try writer.append(payload(10))
    let follower = try #require(try other.openFollower(for: "key"))
    switch way {
    case "stored": try store.store(payload(5, 9), for: "key")
    case "removed": try store.remove("key")
    default: try store.removeAll(.all)
    }
    try store.collect()
    try writer.append(payload(20, 2))
    #expect(commit(writer) == .superseded)
    #expect(try follow(follower).bytes == payload(10) + payload(20, 2))
    #expect(try other.load("key")?.payload == (way == "stored" ? payload(5, 9) : nil))
    try store.checkInvariants()
  }

  /// Y23: followers of one stream of a key do not see the next stream.
  @Test(arguments: Place.allCases) func eachStreamHasItsFollowers(place: Place) throws {
    let (store, other) = try stores(place)
    var first = try open(store)
    let old = try #require(try other.openFollower(for: "key"))
    var second = try open(store)
    let new = try #require(try other.openFollower(for: "key"))
    try first.append(payload(10, 1))
    try second.append(payload(20, 2))
    #expect(try read(old, at: 0) == payload(10, 1))
    #expect(try read(new, at: 0) == payload(20, 2))
    #expect(commit(first) == .superseded)
    try second.commit()
    #expect(try follow(old).bytes == payload(10, 1))
    #expect(try follow(new).bytes == payload(20, 2))
  }

  // MARK: Damage and errors

  /// Y24: a wrong checksum is detected at the end of the payload.
  @Test(arguments: BlobStore.DamagePolicy.allCases) func wrongBytesAreDamage(policy: BlobStore.DamagePolicy) throws {
    let store = try cache.store { $0.damagePolicy = policy }
    var writer = try open(store)
    try writer.append(payload(1000))
    let follower = try #require(try store.openFollower(for: "key"))
    let file = try FileDescriptor.open(cache.path("ke/key"), .readWrite, options: .closeOnExec)
    try file.closeAfter { _ = try file.writeAll(toAbsoluteOffset: 500, [UInt8](repeating: 0, count: 50)) }
    try writer.commit()
    let error = #expect(throws: BlobStoreError.self) { _ = try follow(follower) }
    #expect(error?.code == .damaged)
    if case .payloadChecksumMismatch = error?.recordError {} else { Issue.record("\(error as Any)") }
    #expect(try cache.exists("ke/key") == (policy == .report))
  }

  /// Another program truncates the file.
  @Test func aFileCutOffIsDamage() throws {
    let store = try cache.store()
    var writer = try open(store)
    try writer.append(payload(1000))
    let follower = try #require(try store.openFollower(for: "key"))
    #expect(follower.byteCount == 1000)
    try check(truncate(cache.path("ke/key"), 500), "truncate")
    let error = expect(.damaged) { _ = try read(follower, at: 0) }
    #expect(error?.recordError == .wrongPayloadSize(stated: 1000, found: 436))
    writer.discard()
  }

  /// The record of another key has the file name.
  @Test func anothersStreamIsNotFollowed() throws {
    let store = try cache.store()
    let writer = try open(store)
    try check(link(cache.path("ke/key"), cache.path("ke/kez")), "link")
    let error = expect(.damaged) { _ = try store.openFollower(for: "kez") }
    if case .keyMismatch = error?.recordError {} else { Issue.record("\(error as Any)") }
    writer.discard()
  }

  /// A failing read is an error for the current waits, and the next wait continues.
  @Test(arguments: Place.allCases) func aFailingLookIsAnError(place: Place) throws {
    let store = try cache.store(files: trace.files)
    let other = place == .here ? store : try cache.store(files: trace.files)
    var writer = try open(store)
    let follower = try #require(try other.openFollower(for: "key", timeout: .seconds(500)))
    for call in [SystemCall.status, .read, .lock] where place == .elsewhere {
      trace.onCall { made, path in made == call && path.string.hasSuffix("ke/key") ? .fail(.ioError) : nil }
      let error = expect(.fileSystem) { _ = try read(follower, at: 0) }
      #expect(error?.errno == .ioError && error?.key == "key", "\(call)")
      trace.onCall(nil)
    }
    try writer.append(payload(10))
    trace.onCall { made, path in made == .read && path.string.hasSuffix("ke/key") ? .fail(.ioError) : nil }
    let error = expect(.fileSystem) { _ = try read(follower, at: 0) }
    #expect(error?.errno == .ioError)
    trace.onCall(nil)
    #expect(try read(follower, at: 0) == payload(10))
    writer.discard()
  }

  /// Y20: a partially written header is read again.
  @Test func aTornHeaderIsLookedAtAgain() throws {
    let (store, other) = try stores(.elsewhere)
    var writer = try open(store)
    let follower = try #require(try other.openFollower(for: "key", timeout: .milliseconds(20)))
    try writer.append(payload(10))
    let sound = try cache.bytes("ke/key")
    let file = try FileDescriptor.open(cache.path("ke/key"), .readWrite, options: .closeOnExec)
    _ = try file.writeAll(toAbsoluteOffset: 60, [0, 0, 0, 0])
    expect(.streamStalled) { _ = try read(follower, at: 0) }
    _ = try file.writeAll(toAbsoluteOffset: 0, sound.prefix(64))
    try file.close()
    #expect(try read(follower, at: 0) == payload(10))
    writer.discard()
  }

  /// A cancelled wait ends immediately.
  @Test func aWaitCanBeLeft() async throws {
    let store = try cache.store()
    let writer = try open(store)
    let follower = try #require(try store.openFollower(for: "key", timeout: .seconds(500)))
    let (answers, continuation) = AsyncStream<Result<FollowedProgress, any Error>>.makeStream()
    let number = try #require(follower.whenReady(beyond: 0) { continuation.yield($0) })
    follower.leave(number, CancellationError())
    follower.leave(number, CancellationError())
    for await answer in answers {
      #expect(throws: CancellationError.self) { try answer.get() }
      break
    }
    writer.discard()
  }

  /// Without followers, a visible writer makes no more calls per piece than an invisible one.
  @Test func writersWithoutFollowersPayNothing() throws {
    let store = try cache.store(files: trace.files)
    var counts: [Int] = []
    for visibility in [BlobStore.Visibility.afterCommit, .whileWriting] {
      var writer = try store.openWriter(for: "key", visibility: visibility)
      _ = trace.take()
      for _ in 0..<10 { try writer.append(payload(100)) }
      counts.append(trace.take().count)
      writer.discard()
    }
    #expect(counts == [10, 10])
  }

  /// All followers of a blob share one descriptor.
  @Test func followersShareOneFile() throws {
    let store = try cache.store()
    var writer = try open(store)
    let before = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
    let followers = try (0..<2000).map { _ in try #require(try store.openFollower(for: "key")) }
    // Concurrent tests open far fewer files.
    #expect(try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count < before + 1000)
    let count = Atomic(0)
    let (ended, continuation) = AsyncStream<Void>.makeStream()
    _ = ended
    for follower in followers {
      _ = follower.whenReady(beyond: 0) { answer in
        if case .success = answer { count.add(1, ordering: .relaxed) }
      }
    }
    try writer.append(payload(10))
    #expect(count.load(ordering: .relaxed) == 2000)
    continuation.finish()
    try writer.commit()
  }
}
