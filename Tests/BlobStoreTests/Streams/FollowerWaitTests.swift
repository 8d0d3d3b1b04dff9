import BlobRecord
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Spec/Semantics.md, Y19 to Y21: waits of followers, the cost of their reads, and extended data.
@Suite(.timeLimit(.minutes(30))) struct FollowerWaitTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private func open(_ store: BlobStore, expectedSize: Int64? = nil, extendedData: Data? = nil) throws -> BlobWriter {
    try store.openWriter(
      for: "key", ttl: .seconds(77), expectedSize: expectedSize, extendedData: extendedData, visibility: .whileWriting)
  }

  private func all(_ follower: BlobFollower) throws -> Data {
    var bytes = Data()
    try follower.forEachPiece { piece in bytes.append(piece.withUnsafeBytes { Data($0) }) }
    return bytes
  }

  // MARK: Waits

  /// Y21: each new byte restarts the timeout, also of waits for a later byte. The test passes the time explicitly.
  @Test func eachByteRenewsTheWait() throws {
    let store = try cache.store()
    let writer = try open(store)
    let root = try #require(try store.core.root.opened())
    let path = root.placed(try store.core.path(for: "key"))
    let lookup = FollowedLookup(path: path, now: cache.clock.now)
    let reading = try Records(store.core).read(path, in: root, lookup, .first)
    guard case .live(_, let found) = reading else { throw CallFailure(call: "\(reading)", errno: 0) }
    let stream = FollowedStream(found.record)
    let answers = Lock<[FollowedStream.Answer]>([])
    for offset in [50, 1000] as [Int64] {
      _ = stream.wait(beyond: offset, atMost: .seconds(500)) { answer in answers.withLock { $0.append(answer) } }
    }
    let between = ContinuousClock.now
    while ContinuousClock.now <= between {}
    stream.tell(FollowedProgress(byteCount: 10))
    stream.endLateWaits(at: between + .seconds(500))
    #expect(answers.withLock { $0.isEmpty })
    // The number of bytes has not increased.
    stream.tell(FollowedProgress(byteCount: 10))
    stream.endLateWaits(at: .now + .seconds(500))
    #expect(answers.withLock { $0.count } == 2)
    for answer in answers.withLock({ $0 }) {
      let error = #expect(throws: BlobStoreError.self) { try answer.get() }
      #expect(error?.code == .streamStalled)
    }
    #expect(!stream.hasWaiters)
    writer.discard()
  }

  // MARK: System calls

  /// Y19: a follower of a complete blob costs as much as a reader, and a stream is opened once.
  @Test func aFollowerIsOpenedAtOnce() throws {
    let store = try cache.store(files: trace.files)
    try store.store(payload(1), for: "key", ttl: .seconds(77))
    func calls(_ body: () throws -> Void) rethrows -> [SystemCall] {
      _ = trace.take()
      try body()
      return trace.take().map(\.call)
    }
    var reader: BlobReader?
    var follower: BlobFollower?
    let ofReader = try calls { reader = try store.openReader(for: "key") }
    #expect(try calls { follower = try store.openFollower(for: "key") } == ofReader)
    _ = (reader, follower)
    var writer = try open(store)
    follower = nil
    let ofStream = try calls { follower = try store.openFollower(for: "key") }
    #expect(ofStream == ofReader + [.lock, .status, .read, .lock])
    #expect(try calls { try writer.append(payload(10)) } == [.write])
    #expect(follower?.byteCount == 10)
    writer.discard()
  }

  // MARK: Extended data

  /// Y19a: extended data are available at the end of a stream, and immediately for a complete blob.
  @Test(arguments: FollowerTests.Place.allCases, [Int64?.none, 100]) func extendedDataAreRead(
    place: FollowerTests.Place, expectedSize: Int64?
  ) throws {
    let store = try cache.store()
    let other = place == .here ? store : try cache.store()
    for data in [nil, payload(20, 3)] {
      var writer = try open(store, expectedSize: expectedSize, extendedData: data)
      let follower = try #require(try other.openFollower(for: "key"))
      try writer.append(payload(100))
      #expect(follower.extendedData == nil)
      try writer.commit()
      #expect(try all(follower) == payload(100))
      #expect(follower.extendedData == data)
      #expect(try other.openFollower(for: "key")?.extendedData == data)
    }
  }

  /// Y20: a broken extension is damage, as for a load.
  @Test(arguments: BlobStore.DamagePolicy.allCases) func aBrokenExtensionIsDamage(
    policy: BlobStore.DamagePolicy
  ) throws {
    let store = try cache.store()
    let other = try cache.store { $0.damagePolicy = policy }
    var writer = try open(store, extendedData: payload(20, 3))
    try writer.append(payload(100))
    let follower = try #require(try other.openFollower(for: "key"))
    try writer.commit()
    let file = try FileDescriptor.open(cache.path("ke/key"), .readWrite, options: .closeOnExec)
    try file.closeAfter { _ = try file.writeAll(toAbsoluteOffset: 164, [UInt8](repeating: 255, count: 12)) }
    let error = expect(.damaged) { _ = try other.load("key") }
    #expect(error?.recordError == .invalidExtension)
    let followed = #expect(throws: BlobStoreError.self) { try all(follower) }
    #expect(followed?.recordError == .invalidExtension)
    #expect(follower.extendedData == nil)
    #expect(try cache.exists("ke/key") == (policy == .report))
  }
}
