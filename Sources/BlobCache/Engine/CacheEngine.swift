internal import BlobRecord
internal import BlobStore
internal import Locks
internal import Logging
internal import MemoryCache
internal import Posix
internal import Synchronization
internal import SystemPackage

/// The state shared by all caches of this process on one directory.
///
/// It contains the store, the blobs in memory, the threads, and the blobs that are being produced or staged. Its
/// operations block, so `BlobCache` runs them on a lane.
final class CacheEngine: Sendable {
  let configuration: BlobCache.Configuration
  let store: BlobStore
  let lanes: Lanes
  let generations: Generations
  let touches: TouchBatch
  let memory: MemoryTier?
  let staging: StagingArea?
  let productions: ProductionTable
  let streams = StreamTable()
  let places: ProducerPlaces
  let failures: FailureMemory
  let slicedObjects = SlicedObjects()
  let readiness: ReadinessWatch
  let observer: Observer
  let backupExclusion: BackupExclusion
  private let configuredRemote: RemoteAccess?
  /// The remote tier, or `nil` without one, and in a request that the tier of another cache has sent.
  var remote: RemoteAccess? { configuredRemote.flatMap { RemoteTier.isPassedOver ? nil : $0 } }
  /// The seed by which refreshes are spread over time.
  let refreshSeed = UInt64.random(in: 0 ... .max)
  let revalidates: Bool
  let schedule = Lock<CollectionSchedule?>(nil)

  /// The number of lookups on disk on callers' threads.
  let cachedLookupCount = Atomic<UInt32>(0)

  let tenant: DirectoryTenant
  var shutdownLatch: ShutdownLatch { tenant.shutdownLatch }

  /// - Parameter predecessor: The latch of the previous engine on the directory, if that may still be writing.
  init(
    store: BlobStore, configuration: BlobCache.Configuration, tenant: DirectoryTenant, after predecessor: ShutdownLatch?
  ) {
    self.configuration = configuration
    self.store = store
    self.tenant = tenant
    readiness = store.readinessWatch()
    lanes = Lanes(width: configuration.maxConcurrentOperations, after: predecessor) { store.closeSubdirectories() }
    let generations = Generations(of: store)
    let observer = Observer(cache: store.directory.string)
    let touches = TouchBatch(of: store, interval: configuration.touchInterval, lane: lanes.upkeep)
    memory = configuration.memory.map { memory in
      MemoryTier(memory.cacheConfiguration, of: store, generations: generations, touches: touches) { removed in
        if removed.cause == .evicted {
          observer.tell(CacheEvent(.evicted(.memory), removed.key, byteCount: removed.value.payload.count))
        }
      }
    }
    if case .behind(let writeBehind) = configuration.writing {
      staging = StagingArea(byteLimit: writeBehind.byteLimit, delay: writeBehind.delay)
    } else {
      staging = nil
    }
    let logger = store.configuration.logger
    let patience = configuration.productionPatience
    places = ProducerPlaces(bound: configuration.maxConcurrentProducers)
    productions = ProductionTable(patience: patience, places: places) { key in
      logger.warning("\(key): others have waited \(patience) for its producer: without end, if it waits for them")
    }
    failures = FailureMemory(
      respondsToMemoryPressure: configuration.memory?.respondsToMemoryPressure ?? false,
      now: configuration.monotonicNow)
    let reads = lanes.reads
    configuredRemote = configuration.remote.map { tier in
      RemoteAccess(
        tier,
        RemoteRequests.Environment(
          now: store.configuration.now, monotonicNow: configuration.monotonicNow,
          defaultExpiration: store.effectiveDefaultExpiration, store: store, reads: reads,
          tell: { event in observer.tell(event) }, logger: logger))
    }
    revalidates = configuredRemote?.revalidates ?? false
    backupExclusion = BackupExclusion(store: store, isWanted: configuration.excludesFromBackups)
    self.generations = generations
    self.touches = touches
    self.observer = observer
    store.observeCollections(
      by: CollectionObserver(
        // Collections use the update times on disk. Weak, because the batch owns the store.
        willBegin: { [weak touches] in touches?.write(all: true) },
        didRemove: { [weak generations] record in
          generations?.didChange(record.digest)
          observer.tell(CacheEvent(record))
        },
        didEnd: { observer.tell(CacheEvent(.collected($0), nil, duration: .seconds($0.seconds))) }))
    remote?.listen { [weak self] in await self?.take($0) }
  }

  deinit {
    stopSchedule()
    lanes.close()
    shutdownLatch.finish()
  }
}

extension CacheEngine {
  /// Replaces the schedule of collections, or throws `fileSystem` if the system cannot create a thread.
  func scheduleCollection(_ timing: BlobStore.CollectionTiming, _ options: BlobStore.CollectionOptions) throws {
    let logger = store.configuration.logger
    timing.warnIfRaised(logger)
    // Weak, so that a schedule ends with its cache.
    let work = CollectionRunner.Work(
      time: store.configuration.now,
      // After an error, a pass is due immediately, and reports the same error.
      lastPass: { [store] in (try? store.statistics())?.lastPass?.time },
      pass: { [weak self, directory = store.directory] isStopping throws(BlobStoreError) in
        var options = options
        options.isStopped = isStopping
        return try self?.collect(options) ?? BlobStore.CollectionReport(directory: directory)
      },
      report: { outcome in
        switch outcome {
        case .finished(let report): logger.debug("collected \(report.directory): \(report.bytesFreed) bytes freed")
        case .skippedAsRecent: break
        case .skippedAsRunning(let error): logger.debug("\(error)")
        case .failed(let error): logger.warning("\(error)")
        }
      })
    let next = CollectionSchedule(
      of: store.directory, timing: timing, slots: nil, clock: ScheduleClock(), work: work)
    let last = schedule.withLock { schedule in
      defer { schedule = next }
      return schedule
    }
    last?.stop()
    try next.start()
  }

  func stopSchedule() {
    let last = schedule.withLock { $0.take() }
    last?.stop()
  }
}
