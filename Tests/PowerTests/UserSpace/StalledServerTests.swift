#if os(Linux)
  import BlobCache
  import BlobRecord
  import BlobStore
  import Foundation
  import Locks
  import Posix
  import SystemPackage
  import TestSupport
  import Testing

  /// Spec/Performance.md, 1: a real user space file system whose server stops during a load.
  @Suite(.serialized, .canServeFiles, .timeLimit(.minutes(30))) struct StalledServerTests {
    private static let payload = Data((0..<5000).map { UInt8(truncatingIfNeeded: $0 &* 7) })

    /// The requests that the server does not answer. A file is opened by a request even if everything is cached.
    static let stalls: [FuseRequest.Kind] = [.lookup, .open, .read]

    /// Returns a volume with the records a and b.
    private func volume(stalling kind: FuseRequest.Kind) throws -> StallingVolume {
      let volume = try StallingVolume(remembers: kind == .open)
      let store = try BlobStore(directory: FilePath(volume.realCache), configuration: configuration.store)
      for key: BlobKey in ["a", "b"] { try store.store(Self.payload, for: key, ttl: .seconds(1_000_000)) }
      return volume
    }

    private var configuration: BlobCache.Configuration {
      var configuration = BlobCache.Configuration()
      configuration.memory = nil
      // Without shared memory, packed records are not found.
      configuration.store.packing = .off
      configuration.store.durability = .none
      configuration.store.limits.freeSpaceFloor = 0
      return configuration
    }

    private func fileName(of key: BlobKey, in store: BlobStore) throws -> String {
      try store.path(of: key, for: "load").fileName
    }

    /// The nonblocking lookup sends no request to the server, although the record was read before.
    @Test(arguments: stalls) func aLookThatNeverWaitsMakesNoCall(stalled: FuseRequest.Kind) throws {
      let volume = try volume(stalling: stalled)
      let calls = CallLog()
      let store = try BlobStore(
        directory: FilePath(volume.cache), configuration: configuration.store,
        files: Files { call, _ in
          calls.append(call)
          return nil
        })
      for _ in 0..<2 { #expect(try store.load("a")?.payload == Self.payload) }
      let path = try store.path(of: "a", for: "load")
      volume.server.hold(stalled, of: path.fileName)
      let before = calls.all.count
      var receipt = LoadReceipt()
      let blob = store.loadIfCached("a", at: path, touching: true, &receipt)
      let header = store.headerIfCached(for: "a")
      let made = calls.all.dropFirst(before)
      #expect(made.isEmpty, "\(made)")
      guard case .unknown = blob, case .unknown = header else {
        Issue.record("answered from a file system whose calls may wait")
        return
      }
      #expect(volume.server.heldCount == 0 && !volume.server.hasRunOut)
      volume.server.letGo()
      #expect(try store.load("a")?.payload == Self.payload)
    }

    /// All tasks of the test share one thread. If a load blocked it, the test would fail at the server's time limit.
    @Test(arguments: stalls) func aStalledLoadHoldsNoTask(stalled: FuseRequest.Kind) async throws {
      let volume = try volume(stalling: stalled)
      let cache = try BlobCache(directory: FilePath(volume.cache), configuration: configuration)
      let outside = try TemporaryDirectory()
      let elsewhere = try BlobCache(directory: outside.path.appending("cache"), configuration: configuration)
      try await withTaskExecutorPreference(OneThread()) {
        #expect(try await cache.load("a")?.payload == Self.payload)
        try await elsewhere.store(Data("elsewhere".utf8), for: "a")
        volume.server.hold(stalled, of: try fileName(of: "a", in: cache.store))
        async let load = cache.load("a")
        try await stall(of: volume)
        for _ in 0..<100 { #expect(try await elsewhere.load("a")?.payload == Data("elsewhere".utf8)) }
        // Other threads answer loads of the cache's other records.
        #expect(try await cache.load("b")?.payload == Self.payload)
        #expect(volume.server.heldCount > 0 && !volume.server.hasRunOut)
        volume.server.letGo()
        #expect(try await load?.payload == Self.payload)
      }
      try await cache.close()
      try await elsewhere.close()
    }

    /// A4: a load that waits for a thread is cancelled immediately, and a load that has begun is completed.
    @Test(arguments: stalls) func aCancelledLoad(stalled: FuseRequest.Kind) async throws {
      let volume = try volume(stalling: stalled)
      var configuration = configuration
      configuration.maxConcurrentOperations = 1
      let cache = try BlobCache(directory: FilePath(volume.cache), configuration: configuration)
      #expect(try await cache.load("a")?.payload == Self.payload)
      volume.server.hold(stalled, of: try fileName(of: "a", in: cache.store))
      let begun = Task { try await cache.load("a") }
      try await stall(of: volume)
      let waiting = Task { try await cache.load("b") }
      waiting.cancel()
      await #expect(throws: CancellationError.self) { try await waiting.value }
      begun.cancel()
      #expect(volume.server.heldCount > 0 && !volume.server.hasRunOut)
      volume.server.letGo()
      #expect(try await begun.value?.payload == Self.payload)
      #expect(try await cache.load("b")?.payload == Self.payload)
      try await cache.close()
    }

    /// Waits until the server holds an answer.
    private func stall(of volume: StallingVolume) async throws {
      let start = ContinuousClock.now
      while volume.server.heldCount == 0 {
        try #require(!volume.server.hasRunOut, "the stalled load held the thread of all tasks")
        try #require(start.duration(to: .now) < .seconds(300), "no load has asked the server")
        try await Task.sleep(for: .milliseconds(1))
      }
    }

    private final class CallLog: Sendable {
      private let entries = Lock<[SystemCall]>([])
      func append(_ call: SystemCall) { entries.withLock { $0.append(call) } }
      var all: [SystemCall] { entries.withLock { $0 } }
    }

    /// A task executor that runs all jobs on one thread, one after another.
    private final class OneThread: TaskExecutor {
      private let queue = DispatchQueue(label: "one thread")

      func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
      }
    }
  }
#endif
