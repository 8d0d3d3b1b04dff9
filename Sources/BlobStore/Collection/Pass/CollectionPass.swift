internal import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

/// One collection under way: the expiry pass, then, where a limit is exceeded, the size pass.
final class CollectionPass {
  let store: StoreCore
  let options: BlobStore.CollectionOptions
  let control: ControlFile?
  /// When the pass began.
  let now: UnixTime
  var report: BlobStore.CollectionReport
  var plan = EvictionPlan<Victim>()
  /// Records that are not to be evicted, by their digests.
  var isSpared: (UInt64) -> Bool = { _ in false }
  /// Whether the goal in bytes still is one once the walk has ended.
  var isGoalWanted: () -> Bool = { true }
  /// Bytes for which the volume has no room, and which are to be freed where there is a limit.
  var roomWanted: Int64? {
    didSet { oldest = hasLimit ? OldestRecords(capacity: options.rememberedRecords) : nil }
  }
  /// The oldest, where it seems that some have to go.
  var oldest: OldestRecords?
  /// Receives those that are next to go, if it is there.
  var nextVictims: NextVictims?
  /// Whether something was left in the subdirectory that is being walked.
  var subdirectoryHoldsSomething = false
  /// What is left and what was removed, as the counters count it.
  var counted = StoreCore.Enumeration(left: BlobStore.UsageEstimate())
  /// What earlier passes knew, and this one leaves; nil where it is not to be used.
  let marks: SubdirectoryLedger?
  /// What is to be known of the subdirectory that is being walked; nil if it is to be walked again.
  var mark: SubdirectoryLedger.Mark?
  /// Subdirectories that were known to hold nothing to remove.
  var passedOver = 0
  /// Subdirectories and files that were not counted, because nobody could tell their size.
  var unmeasured = 0
  /// Of a dry run that was cut short, what it has walked over.
  var walked: OrderedEntries.Part?
  /// Whether something was met that may be a record of another layout.
  var hasMetForeign = false
  private(set) var quarantineBytes: Int64 = 0
  /// Whether what stays is measured, because the oldest of it may have to go.
  let hasLimit: Bool
  /// Of a pass that looks ahead, which finds those that are next to go and evicts none of them: those that are known
  /// already, and go meanwhile if stores need room. Else nil.
  var victimsMeanwhile: NextVictims?
  /// What that took, which counts as evictions.
  var secondsMeanwhile = 0.0
  /// Whether those are only to be found that are next to go, and none evicted.
  let looksAhead: Bool
  /// Whether the files of what goes may go into the recycling bin.
  let recycles: Bool
  private var progress: BlobStore.CollectionProgress
  /// What was to go, while another change had its stripe.
  var busy: BusyRecords<PostponedRemoval>

  init(
    store: StoreCore, options: BlobStore.CollectionOptions, control: ControlFile?, evictingMeanwhile: NextVictims? = nil
  ) {
    self.store = store
    self.options = options
    self.control = control
    let configuration = store.configuration
    now = configuration.now()
    // Marks are for those who share a clock. At the root there are no subdirectories.
    let usesMarks =
      configuration.access.recordsCollections && configuration.layout.separatesDirectories && !options.dryRun
    marks = (usesMarks ? control : nil).flatMap {
      SubdirectoryLedger(
        $0, naming: configuration.layout.naming, defaultExpiration: store.defaultExpiration,
        sharing: configuration.access.sharing)
    }
    let limit = StoreLimit(configuration, quarantineBytes: store.quarantineByteLimit)
    let isKept = control.flatMap { control in
      control.countersAreKnown ? control.counters.map { limit?.isExceeded(by: $0) == false } : nil
    }
    let hasAmount = options.goal?.isAmount ?? false
    hasLimit = limit != nil || hasAmount
    let mayEvict = hasAmount || (limit != nil && isKept != true)
    victimsMeanwhile = evictingMeanwhile
    looksAhead = evictingMeanwhile != nil
    oldest = mayEvict || looksAhead ? OldestRecords(capacity: options.rememberedRecords) : nil
    recycles = !options.emptiesBin
    busy = BusyRecords(waiting: store.patience)
    report = BlobStore.CollectionReport(directory: store.root.path)
    report.dryRun = options.dryRun
    let expected = control.flatMap { $0.countersAreKnown ? $0.counters?.records : nil }
    progress = BlobStore.CollectionProgress(
      phase: .expiry, examined: 0, expected: expected.map { max(0, $0) }, bytesFreed: 0)
  }

  /// `counted`, if all was seen.
  var enumeration: StoreCore.Enumeration? {
    let isWhole = !report.wasCutShort && !report.wasStopped && unmeasured == 0 && passedOver == 0
    guard !options.dryRun, isWhole else { return nil }
    var found = counted
    found.isOfOneLayout = !hasMetForeign
    return found
  }

  /// What is left, the quarantine included.
  var left: BlobStore.UsageEstimate { BlobStore.UsageEstimate(records: report.recordsAfter, bytes: report.bytesAfter) }

  func run(since start: ContinuousClock.Instant) throws {
    try expire { start.duration(to: .now) >= options.maximumTime ?? .zero }
    surviving(trimQuarantine)
    if !isStopped { try evict() }
    try comeBackToBusy()
    if !isStopped { surviving(trimBin) }
    reportProgress()
  }

  private func trimQuarantine() throws {
    guard let quarantine = try store.quarantine() else { return }
    let trimmed = try quarantine.trim(dryRun: options.dryRun)
    report.damaged += trimmed.files
    report.bytesFreed.saturatingAdd(trimmed.bytes)
    quarantineBytes = trimmed.bytesLeft
    report.bytesAfter.saturatingAdd(quarantineBytes)
    if let failure = trimmed.failure { throw failure }
  }

  /// Empties the recycling bin of what nobody has needed for a while, and of what is too much.
  private func trimBin() throws {
    let age = options.emptiesBin ? nil : Int64(clamping: options.recycledFileAge.components.seconds)
    let (removed, left) = try store.supply.emptyBin(
      olderThan: age.map { $0.multipliedReportingOverflow(by: 1_000_000_000).partialValue }, to: store.recyclingLimit,
      dryRun: options.dryRun)
    report.recycled = removed.files
    report.recycledBytesFreed = removed.bytes
    report.recycledBytesAfter = left.bytes
  }
}

// MARK: - Stopping and progress

extension CollectionPass {
  /// Whether to end with what is in hand. Once it is so, it stays so.
  var isStopped: Bool {
    if !report.wasStopped, Task.isCancelled || options.isStopped?() == true { report.wasStopped = true }
    return report.wasStopped
  }

  func begin(_ phase: BlobStore.CollectionProgress.Phase) {
    progress.phase = phase
    progress.examined = 0
  }

  /// Counts record files that were looked at.
  func advance(by count: Int64 = 1) {
    let step = Int64(BlobStore.CollectionOptions.progressStep)
    let isDue = progress.examined / step != (progress.examined + count) / step
    progress.examined += count
    if isDue { reportProgress() }
    evictMeanwhile()
  }

  private func reportProgress() {
    progress.bytesFreed = report.bytesFreed
    options.progress?(progress)
  }
}

// MARK: - Removing

extension CollectionPass {
  /// - Returns: whether the record is gone, or in a dry run would be.
  func remove(
    _ entry: RecordEntry, for cause: CollectedRecord.Cause, in walk: RecordWalk, _ open: OpenRoot,
    _ isDue: @escaping (RecordEntry) -> Bool
  ) throws -> Bool {
    if !options.dryRun {
      guard let path = entry.path else { return false }
      let removal = try walk.withCurrentDirectory {
        try store.removeRecord(at: path, in: $0, of: open, recycling: recycles, if: isDue)
      }
      switch removal {
      case .removed(let removed): didRemove(removed, path, cause)
      case .busy:
        busy.add(.due(path, cause, isDue))
        return false
      case .stays: return false
      }
    }
    count(cause)
    report.bytesFreed.saturatingAdd(entry.fileSize)
    return true
  }

  /// A record file is gone.
  func didRemove(_ removed: RecordEntry, _ path: RecordPath, _ cause: CollectedRecord.Cause) {
    counted.removed = counted.removed + BlobStore.UsageEstimate(removed.size)
    tell(cause, path, removed.size)
  }

  /// Counts a record that is gone, or in a dry run would be.
  func count(_ cause: CollectedRecord.Cause) {
    switch cause {
    case .expired: report.expired += 1
    case .evicted: report.evicted += 1
    case .damaged: report.damaged += 1
    }
  }

  /// Tells the observer, if there is one, of a record that is gone.
  func tell(_ cause: CollectedRecord.Cause, _ path: RecordPath, _ size: RecordSize) {
    guard let observer = store.collectionObservation.observer else { return }
    let key = store.configuration.layout.naming.key(ofFileName: path.fileName)
    observer.didRemove(CollectedRecord(cause: cause, key: key, digest: path.digest, fileSize: size.bytes))
  }

  /// One file that cannot be read or removed does not end the pass: it is logged and counted.
  func surviving(_ body: () throws -> Void) {
    do {
      try body()
    } catch {
      report.failed += 1
      mark = nil
      store.configuration.logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
    }
  }
}
