import BlobCache
import BlobStore
import Foundation
import Locks
import Posix
import Synchronization
import TestSupport
import Testing

/// Spec/Semantics.md, Y and A26: blobs of the cache that are read while they are written.
@Suite(.timeLimit(.minutes(30))) struct StreamProductionTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  private func all(_ follower: CacheFollower, by pieceSize: Int = 256 << 10) async throws -> Data {
    var bytes = Data()
    for try await piece in follower.pieces(pieceSize: pieceSize) { bytes.append(piece) }
    return bytes
  }

  struct OriginFailure: Error, Equatable {}

  /// Lets a producer continue step by step.
  final class Steps: Sendable {
    private let steps: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation
    private let started = Atomic(0)

    init() { (steps, continuation) = AsyncStream<Void>.makeStream() }

    var starts: Int { started.load(ordering: .relaxed) }
    func start() { started.add(1, ordering: .relaxed) }
    func go() { continuation.yield() }
    func wait() async { for await _ in steps { return } }
  }

  // MARK: Followers

  /// Y19: chunks are readable when they are written, by each way of reading.
  @Test func followsAWriter() async throws {
    let cache = try test.cache()
    #expect(try await cache.openFollower(for: "key") == nil)
    let writer = try await cache.openWriter(for: "key", visibility: .whileWriting)
    let follower = try #require(try await cache.openFollower(for: "key"))
    #expect(follower.key == "key" && follower.header == nil && follower.byteCount == 0)
    let whole = Task { try await all(follower, by: 700) }
    let spans = Task {
      let bytes = Lock(Data())
      let header = try await follower.forEachPiece(pieceSize: 900) { piece in
        let data = piece.withUnsafeBytes { Data($0) }
        bytes.withLock { $0.append(data) }
      }
      return (bytes.withLock { $0 }, header)
    }
    for index in 0..<5 {
      try await writer.append(payload(1000, UInt64(index)))
      #expect(try await follower.read(at: Int64(index) * 1000, atMost: 5000) == payload(1000, UInt64(index)))
    }
    let header = try await writer.commit()
    let bytes = (0..<5).map { payload(1000, $0) }.reduce(Data(), +)
    #expect(try await whole.value == bytes)
    let (read, found) = try await spans.value
    #expect(read == bytes && found == header)
    #expect(try await follower.read(at: 5000).isEmpty)
    #expect(try await cache.load("key")?.payload == bytes)
    #expect(try await all(try #require(try await cache.openFollower(for: "key"))) == bytes)
  }

  /// Y21, Y22: followers throw the errors of the store.
  @Test func followersGetErrors() async throws {
    let cache = try test.cache()
    let writer = try await cache.openWriter(for: "key", visibility: .whileWriting)
    let follower = try #require(try await cache.openFollower(for: "key", timeout: .milliseconds(20)))
    let stalled = await #expect(throws: BlobStoreError.self) { try await follower.read(at: 0) }
    #expect(stalled?.code == .streamStalled && stalled?.key == "key" && stalled?.operation == "load")
    try await writer.discard()
    let broken = await #expect(throws: BlobStoreError.self) { try await all(follower) }
    #expect(broken?.code == .streamBroken)
    var pieces = follower.pieces().makeAsyncIterator()
    await #expect(throws: BlobStoreError.self) { try await pieces.next() }
    #expect(try await pieces.next() == nil)
  }

  /// A26b: a wait ends when its task is cancelled, and occupies no thread.
  @Test func waitsAreCancelledAndHoldNoThread() async throws {
    let cache = try test.cache { $0.maxConcurrentOperations = 1 }
    let writer = try await cache.openWriter(for: "key", visibility: .whileWriting)
    let follower = try #require(try await cache.openFollower(for: "key", timeout: .seconds(500)))
    let waits = (0..<100).map { _ in Task { try await follower.read(at: 0) } }
    // The single thread is free.
    try await cache.store(payload(5), for: "other")
    #expect(try await cache.load("other")?.payload == payload(5))
    for wait in waits.prefix(50) { wait.cancel() }
    for wait in waits.prefix(50) {
      await #expect(throws: CancellationError.self) { try await wait.value }
    }
    try await writer.append(payload(10))
    for wait in waits.dropFirst(50) { #expect(try await wait.value == payload(10)) }
    let late = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return try await follower.read(at: 10)
    }
    await #expect(throws: CancellationError.self) { try await late.value }
    try await writer.commit()
  }

  // MARK: Productions

  /// A26: one producer runs, and all concurrent calls read its output.
  @Test(arguments: [false, true]) func oneProducerForAll(acrossProcesses: Bool) async throws {
    let cache = try test.cache()
    let steps = Steps()
    let options = StreamOptions(acrossProcesses: acrossProcesses)
    @Sendable func ask() async throws -> CacheFollower {
      try await cache.stream("key", options: options) { writer in
        steps.start()
        #expect(writer.key == "key")
        for index in 0..<3 {
          try await writer.append(payload(1000, UInt64(index)))
          await steps.wait()
        }
        writer.setTimeToLive(.seconds(99))
        writer.setLocks(.one)
        #expect(writer.byteCount == 3000)
      }
    }
    let bytes = (0..<3).map { payload(1000, $0) }.reduce(Data(), +)
    let first = try await ask()
    #expect(try await first.read(at: 0) == payload(1000, 0))
    let others = try await withThrowingTaskGroup(of: CacheFollower.self) { group in
      for _ in 0..<10 { group.addTask { try await ask() } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    // A separate store represents another process.
    let elsewhere = try #require(try test.otherStore().openFollower(for: "key"))
    for _ in 0..<3 { steps.go() }
    for follower in [first] + others { #expect(try await all(follower) == bytes) }
    let read = Lock(Data())
    let header = try elsewhere.forEachPiece { piece in
      let data = piece.withUnsafeBytes { Data($0) }
      read.withLock { $0.append(data) }
    }
    #expect(read.withLock { $0 } == bytes && header.ttl == 99 && header.refCount == 1)
    #expect(steps.starts == 1)
    // The blob is stored, and no other producer runs.
    #expect(try await all(try await ask()) == bytes)
    #expect(steps.starts == 1)
  }

  /// A26: calls that start while the first call begins the production wait for that call.
  @Test func manyAskAtOnce() async throws {
    let cache = try test.cache()
    let starts = Steps()
    try await withThrowingTaskGroup(of: Data.self) { group in
      for _ in 0..<50 {
        group.addTask {
          let follower = try await cache.stream("key") { writer in
            starts.start()
            try await writer.append(payload(10_000))
          }
          return try await all(follower)
        }
      }
      for try await bytes in group { #expect(bytes == payload(10_000)) }
    }
    #expect(starts.starts == 1)
  }

  /// A26a: the producer decides whether the blob is stored.
  @Test func aProducerMaySayNotToStore() async throws {
    let cache = try test.cache()
    let steps = Steps()
    let follower = try await cache.stream("key") { writer in
      writer.doNotStore()
      try await writer.append(payload(500))
      await steps.wait()
    }
    let elsewhere = try #require(try test.otherStore().openFollower(for: "key"))
    steps.go()
    #expect(try await all(follower) == payload(500))
    #expect(try elsewhere.forEachPiece { _ in }.payloadSize == 500)
    #expect(try await cache.load("key") == nil)
    #expect(try await cache.usage().temporaryFiles == 0)
  }

  /// A26a: a payload with another size than announced is not stored.
  @Test func aShortPayloadIsNotStored() async throws {
    let cache = try test.cache()
    let follower = try await cache.stream("key") { writer in
      writer.setExpectedSize(11)
      try await writer.append(payload(10))
    }
    let error = await #expect(throws: BlobStoreError.self) { try await all(follower) }
    #expect(error?.code == .sizeMismatch)
    #expect(try await cache.load("key") == nil)
  }

  /// A26c: every reader of this process throws the failure, and the next call produces again.
  @Test func aFailureIsTheReaders() async throws {
    let cache = try test.cache()
    let steps = Steps()
    let follower = try await cache.stream("key") { writer in
      try await writer.append(payload(10))
      await steps.wait()
      throw OriginFailure()
    }
    let other = try await cache.stream("key") { _ in Issue.record("a second producer") }
    let elsewhere = try #require(try test.otherStore().openFollower(for: "key"))
    #expect(try await other.read(at: 0) == payload(10))
    steps.go()
    for reader in [follower, other] {
      await #expect(throws: OriginFailure.self) { try await all(reader) }
    }
    let error = #expect(throws: BlobStoreError.self) { try elsewhere.forEachPiece { _ in } }
    #expect(error?.code == .streamBroken)
    let again = try await cache.stream("key") { writer in try await writer.append(payload(20)) }
    #expect(try await all(again) == payload(20))
  }

  /// A26d: when the last reader leaves, the producer ends, unless `finishesAlone` is set.
  @Test(arguments: [false, true]) func theLastReaderEndsTheProducer(finishesAlone: Bool) async throws {
    let cache = try test.cache()
    let steps = Steps()
    let (ended, continuation) = AsyncStream<Bool>.makeStream()
    var follower: CacheFollower? = try await cache.stream(
      "key", options: StreamOptions(finishesAlone: finishesAlone)
    ) { writer in
      try await writer.append(payload(10))
      await withTaskCancellationHandler {
        await steps.wait()
      } onCancel: {
        steps.go()
      }
      continuation.yield(Task.isCancelled)
      try await writer.append(payload(10))
    }
    #expect(try await follower?.read(at: 0) == payload(10))
    follower = nil
    if finishesAlone { steps.go() }
    for await wasCancelled in ended {
      #expect(wasCancelled == !finishesAlone)
      break
    }
    // The option decides whether the blob exists after the producer has ended.
    let found = try await cache.openFollower(for: "key")
    if finishesAlone {
      #expect(try await all(try #require(found)) == payload(10) + payload(10))
    } else if let found {
      await #expect(throws: BlobStoreError.self) { try await all(found) }
    }
  }

  /// A26e: a producer is never further ahead of its readers than allowed.
  @Test func aProducerWaitsForItsReaders() async throws {
    let cache = try test.cache()
    let written = Steps()
    let follower = try await cache.stream("key", options: StreamOptions(maximumLead: 3000)) { writer in
      for index in 0..<20 {
        try await writer.append(payload(1000, UInt64(index)))
        written.start()
      }
    }
    var pieces = follower.pieces(pieceSize: 1000).makeAsyncIterator()
    var read = 0
    while let piece = try await pieces.next() {
      read += piece.count
      // An append writes its chunk before it waits, so the lead may exceed the maximum by one chunk.
      #expect(written.starts * 1000 <= read + 4000)
    }
    #expect(read == 20_000)
  }

  /// A26e: the limit also holds for reads by offset and for concurrent appends.
  @Test func appendsAtOnceWaitForReadsByOffset() async throws {
    let cache = try test.cache()
    let follower = try await cache.stream("key", options: StreamOptions(maximumLead: 1000)) { writer in
      let first = Task { try await writer.append(payload(4000, 1)) }
      while writer.byteCount < 4000 { await Task.yield() }
      try await writer.append(payload(4000, 2))
      try await first.value
    }
    var bytes = Data()
    while bytes.count < 8000 { bytes += try await follower.read(at: Int64(bytes.count), atMost: 500) }
    #expect(bytes == payload(4000, 1) + payload(4000, 2))
    #expect(try await follower.read(at: 8000).isEmpty)
  }

  /// A26: if the produced blob was removed or superseded, the next call produces again. Readers keep their blob.
  @Test func aBlobThatIsRemovedMeanwhileIsProducedAnew() async throws {
    let cache = try test.cache()
    let steps = Steps()
    let first = try await cache.stream("key") { writer in
      try await writer.append(payload(10))
      await steps.wait()
      try await writer.append(payload(10))
    }
    #expect(try await first.read(at: 0) == payload(10))
    try await cache.remove("key")
    let second = try await cache.stream("key") { writer in try await writer.append(payload(20)) }
    #expect(try await all(second) == payload(20))
    steps.go()
    #expect(try await cache.load("key")?.payload == payload(20))
  }

  /// A26b: a call that waits for a beginning production ends when its task is cancelled.
  @Test func aCallThatWaitsForAnotherIsCancelled() async throws {
    let cache = try test.cache()
    let other = try test.otherStore()
    try other.store(payload(1), for: "other")
    let release = try #require(try other.tryProductionLock(of: "key"))
    let options = StreamOptions(acrossProcesses: true, waitsForOthers: .seconds(500))
    let calls = (0..<5).map { _ in Task { try await cache.stream("key", options: options) { _ in } } }
    for call in calls.dropFirst() { call.cancel() }
    for call in calls.dropFirst() {
      await #expect(throws: CancellationError.self) { _ = try await call.value }
    }
    release()
    calls[0].cancel()
    _ = await calls[0].result
  }

  /// A26: the production of another process is followed.
  @Test func anotherProcessesStreamIsFollowed() async throws {
    let cache = try test.cache()
    let other = try test.otherStore()
    var writer = try other.openWriter(for: "key", visibility: .whileWriting)
    try writer.append(payload(10))
    let follower = try await cache.stream("key", options: StreamOptions(acrossProcesses: true)) { _ in
      Issue.record("a second producer")
    }
    #expect(try await follower.read(at: 0) == payload(10))
    try writer.commit()
    #expect(try await all(follower) == payload(10))
  }

  /// A26: a call waits for another process that is about to produce.
  @Test(arguments: [true, false]) func anotherProcessThatBeginsIsWaitedFor(isInTime: Bool) async throws {
    let cache = try test.cache()
    let other = try test.otherStore()
    try other.store(payload(1), for: "other")
    let release = try #require(try other.tryProductionLock(of: "key"))
    let starts = Steps()
    let options = StreamOptions(acrossProcesses: true, waitsForOthers: isInTime ? .seconds(500) : .milliseconds(20))
    let asked = Task {
      try await cache.stream("key", options: options) { writer in
        starts.start()
        try await writer.append(payload(20))
      }
    }
    if isInTime {
      try other.store(payload(10), for: "key")
      release()
    }
    #expect(try await all(try await asked.value) == payload(isInTime ? 10 : 20))
    #expect(starts.starts == (isInTime ? 0 : 1))
    if !isInTime { release() }
  }

  /// A26: a failure to open the writer is thrown, and the next call produces again.
  @Test func aFailureToBeginIsAnError() async throws {
    let cache = try test.cache()
    let options = StreamOptions(ttl: .zero)
    for _ in 0..<2 {
      let error = await #expect(throws: BlobStoreError.self) {
        try await cache.stream("key", options: options) { _ in Issue.record("a producer") }
      }
      #expect(error?.code == .invalidTimeToLive)
    }
    // A time to live that the producer sets is not known when the call returns, so the follower throws the error.
    let follower = try await cache.stream("key") { writer in writer.setTimeToLive(.zero) }
    let error = await #expect(throws: BlobStoreError.self) { try await all(follower) }
    #expect(error?.code == .invalidTimeToLive)
    await #expect(throws: BlobStoreError.self) { try await cache.stream("") { _ in } }
    await #expect(throws: BlobStoreError.self) { try await cache.stream("") { _ in } }
  }
}
