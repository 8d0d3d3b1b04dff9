internal import BlobRecord
internal import BlobStore
internal import Foundation

/// One thread of a worker. It runs random operations and records each call and return.
final class Worker {
  private let options: RunOptions
  private let cache: CacheInHand
  private let clock: TortureClock
  private let blindMemory: BlindMemory?
  private let faults: PlantedFaults?
  private let history: HistoryFile
  private let keys: [BlobKey]
  private let streams: StreamWorker
  private var requests: WorkerRequests
  private var nextValue: UInt64

  /// - Parameter number: The numbers of worker, incarnation and thread, a combination that is unique in a run.
  init(
    _ options: RunOptions, cache: CacheInHand, clock: TortureClock, blindMemory: BlindMemory?, faults: PlantedFaults?,
    number: (worker: Int, incarnation: Int, thread: Int), quota: Int
  ) throws {
    self.options = options
    self.cache = cache
    self.clock = clock
    self.blindMemory = blindMemory
    self.faults = faults
    history = try HistoryFile(
      creating: options.historyPath(
        worker: number.worker, incarnation: number.incarnation, thread: number.thread),
      capacity: quota)
    keys = (0..<options.keys).map(KeyNames.key)
    streams = StreamWorker(options: options, cache: cache)
    requests = WorkerRequests(seed: options.seed, keyCount: options.keys, number)
    nextValue = UInt64(number.worker) << 56 | UInt64(number.incarnation) << 40 | UInt64(number.thread) << 32 | 1
  }

  func run(until deadline: UInt64) {
    while !history.isFull {
      var entry = HistoryEntry()
      let request = requests.next()
      let (kind, key) = (request.kind, request.key)
      entry.key = kind.isWipe ? HistoryEntry.everyKey : UInt8(key)
      entry.kind = kind.rawValue
      var payload = Data()
      if kind == .stream || kind.isStore {
        entry.stored = nextValue
        nextValue += 1
      }
      if kind.isStore {
        entry.ttl = request.ttl
        payload = SelfDescribingPayload.bytes(of: entry.stored, key: key, isFixed: options.hasFixedPayloads)
      }
      history.call(&entry)
      faults?.misuseMemory()
      do {
        try perform(request, payload, &entry)
      } catch {
        entry.outcome = outcome(of: error).rawValue
        writeError("\(error)")
      }
      history.finish(&entry)
      if entry.returned > deadline { return }
    }
  }

  private func outcome(of error: any Error) -> HistoryEntry.Outcome {
    switch (error as? BlobStoreError)?.code {
    case BlobStoreError.Code.damaged?: .damaged
    case BlobStoreError.Code.busy?: .busy
    default: .failed
    }
  }
}

extension HistoryEntry.Kind {
  var isStore: Bool {
    switch self {
    case .store, .storeLocked, .storeKeepingLocks, .storeLockedKeepingLocks: true
    default: false
    }
  }

  var isWipe: Bool { self == .removeLocked || self == .removeUnlocked }

  var isRead: Bool {
    switch self {
    case .load, .loadUntouched, .header, .contains: true
    default: false
    }
  }
}

// MARK: - Operations

extension Worker {
  private func perform(
    _ request: WorkerRequests.Request, _ payload: Data, _ entry: inout HistoryEntry
  ) throws {
    let (kind, number) = (request.kind, request.key)
    guard !kind.isOfStreams else { return try streams.perform(request, &entry) }
    let key = keys[number]
    switch kind {
    case .load, .loadUntouched:
      if let pieceSize = request.pieceSize {
        let blob = try cache.readPieces(
          key, touching: kind == .load, pieceSize: request.isVariant ? nil : pieceSize)
        note(blob, number, &entry)
      } else {
        try load(number, touching: kind == .load, &entry)
      }
    case .header:
      note(try cache.header(for: key), &entry)
    case .contains:
      entry.outcome = (try cache.contains(key) ? HistoryEntry.Outcome.done : .notFound).rawValue
    case .store, .storeLocked, .storeKeepingLocks, .storeLockedKeepingLocks:
      if kind == .store, try faults?.store(payload, for: key, ttl: entry.ttl) != nil {
        entry.outcome = HistoryEntry.Outcome.done.rawValue
        return
      }
      let ttl: Duration? = entry.ttl == 0 ? nil : .seconds(entry.ttl)
      if let pieceSize = request.pieceSize {
        try cache.storePieces(
          payload, for: key, ttl: ttl, locks: kind.locks, pieceSize: pieceSize, isExpected: request.isVariant)
      } else {
        try cache.store(payload, for: key, ttl: ttl, locks: kind.locks)
      }
      entry.outcome = HistoryEntry.Outcome.done.rawValue
    case .touch: note(try cache.touch(key), &entry)
    case .lock: note(try faults?.changeLocks(of: key, by: 1) ?? cache.lock(key), &entry)
    case .unlock: note(try faults?.changeLocks(of: key, by: -1) ?? cache.unlock(key), &entry)
    case .remove: note(try cache.remove(key), &entry)
    case .removeLocked, .removeUnlocked:
      entry.stored = UInt64(try cache.removeAll(kind == .removeLocked ? .locked : .unlocked).files)
      entry.outcome = HistoryEntry.Outcome.done.rawValue
    case .collect, .collectToLimit, .stream, .follow, .loadStreamed: break
    }
  }

  private func load(_ number: Int, touching: Bool, _ entry: inout HistoryEntry) throws {
    let key = keys[number]
    if let kept = blindMemory?.entry(number), clock.now.seconds <= kept.deadline {
      entry.loaded = kept.value
      entry.outcome = HistoryEntry.Outcome.loadedFromMemory.rawValue
      return
    }
    if let blob = cache.residentBlob(key) {
      note(blob, number, &entry)
      if entry.outcome == HistoryEntry.Outcome.loaded.rawValue {
        entry.outcome = HistoryEntry.Outcome.loadedFromMemory.rawValue
      }
      return
    }
    if let blob = try cache.blobAtOnce(key, touching: touching) {
      note(blob, number, &entry)
      if entry.outcome == HistoryEntry.Outcome.loaded.rawValue {
        entry.outcome = HistoryEntry.Outcome.loadedAtOnce.rawValue
      }
      return
    }
    let blob = try cache.readBlob(key, touching: touching)
    note(blob, number, &entry)
    guard let blob, entry.outcome == HistoryEntry.Outcome.loaded.rawValue else { return }
    let expiry = blob.header.expiry(defaultExpiration: Int64(RunOptions.defaultTTL))
    blindMemory?.put(BlindMemory.Entry(value: entry.loaded, deadline: expiry.seconds), for: number)
  }

  private func note(_ blob: Blob?, _ number: Int, _ entry: inout HistoryEntry) {
    guard let blob else { return entry.outcome = HistoryEntry.Outcome.notFound.rawValue }
    note(blob.header, &entry)
    let value = SelfDescribingPayload.value(of: blob.payload, key: number, isFixed: options.hasFixedPayloads)
    entry.loaded = value ?? 0
    entry.outcome = (value == nil ? HistoryEntry.Outcome.mix : .loaded).rawValue
  }

  private func note(_ header: RecordHeader?, _ entry: inout HistoryEntry) {
    guard let header else { return entry.outcome = HistoryEntry.Outcome.notFound.rawValue }
    entry.refCount = header.refCount
    entry.observedTTL = UInt32(clamping: header.ttl)
    entry.updateTime = UInt32(clamping: header.updateTime)
    entry.outcome = HistoryEntry.Outcome.observed.rawValue
  }

  private func note(_ outcome: BlobStore.Outcome, _ entry: inout HistoryEntry) {
    let noted: HistoryEntry.Outcome =
      switch outcome {
      case .done: .done
      case .notFound: .notFound
      case .notLocked: .notLocked
      }
    entry.outcome = noted.rawValue
  }
}
