internal import BlobRecord
internal import Logging

/// The files that a collection has looked at, removed and left: its report, its progress, and the counters' view of
/// both.
final class CollectionTally {
  private let options: BlobStore.CollectionOptions
  private let logger: Logger
  var report: BlobStore.CollectionReport
  /// The records left and removed, as the counters count them.
  var counted = Enumeration()
  /// Subdirectories that were known to hold nothing to remove.
  var passedOver = 0
  /// Subdirectories and files that were not counted, because their size could not be told.
  var unmeasured = 0
  /// The part of the directory that a dry run has walked over before it was cut short.
  var walked: OrderedEntries.Part?
  /// Evictions by cause.
  var evictions = EvictionSums()
  /// Records that had to go while another change had their stripe.
  var busy: BusyRecords<PostponedRemoval>
  /// The seconds that `meanwhile` took, which count as evictions.
  var secondsMeanwhile = 0.0
  /// Called between two files: a walk that looks ahead evicts then.
  var meanwhile: (() -> Void)?
  private var progress: BlobStore.CollectionProgress

  init(_ core: StoreCore, _ options: BlobStore.CollectionOptions, _ control: ControlFile?) {
    self.options = options
    logger = core.configuration.logger
    busy = BusyRecords(waiting: core.patience)
    report = BlobStore.CollectionReport(directory: core.root.path)
    report.dryRun = options.dryRun
    let expected = control.flatMap { $0.countersAreKnown ? $0.counters?.records : nil }
    progress = BlobStore.CollectionProgress(
      phase: .expiry, examined: 0, expected: expected.map { max(0, $0) }, bytesFreed: 0)
  }

  /// The records and bytes left, the quarantine included.
  var left: BlobStore.UsageEstimate { BlobStore.UsageEstimate(records: report.recordsAfter, bytes: report.bytesAfter) }

  /// `counted`, if all was seen.
  var enumeration: Enumeration? {
    let isWhole = !report.wasCutShort && !report.wasStopped && unmeasured == 0 && passedOver == 0
    return !options.dryRun && isWhole ? counted : nil
  }
}

// MARK: - Stopping and progress

extension CollectionTally {
  /// Whether to end with the file in hand. Once true, it stays true.
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
    meanwhile?()
  }

  func reportProgress() {
    progress.bytesFreed = report.bytesFreed
    options.progress?(progress)
  }
}

// MARK: - Counting

extension CollectionTally {
  /// A record stays, as far as is known yet.
  func stays(_ size: RecordSize) {
    report.bytesAfter.saturatingAdd(size.bytes)
    report.recordsAfter += 1
    counted.left = counted.left + BlobStore.UsageEstimate(size)
  }

  /// A record that was counted among those that stay is gone.
  func isGone(_ size: RecordSize) {
    counted.left = counted.left - BlobStore.UsageEstimate(size)
    report.bytesAfter.saturatingAdd(-size.bytes)
    report.recordsAfter -= 1
  }

  /// A record is gone, or in a dry run would be.
  func removed(_ bytes: Int64, for cause: CollectedRecord.Cause) {
    switch cause {
    case .expired: report.expired += 1
    case .evicted:
      report.evicted += 1
      evictions.add()
    case .damaged: report.damaged += 1
    }
    report.bytesFreed.saturatingAdd(bytes)
  }

  /// One file that cannot be read or removed does not end the collection: it is logged and counted.
  func noteFailure(_ error: any Error) {
    report.failed += 1
    logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
  }
}

/// The result of an enumeration of the whole directory.
struct Enumeration {
  /// The records that are there, without those that the enumeration itself has removed.
  var left = BlobStore.UsageEstimate()
  /// The records that it has removed.
  var removed = BlobStore.UsageEstimate()
  /// False if a file was met that may be a record of another layout.
  var isOfOneLayout = true
}

/// Corrects the counters of a directory by what an enumeration finds.
struct CounterCorrection {
  /// The control file, if it may be written to, and what it counted before the enumeration.
  private let counters: (control: ControlFile, start: CounterReading)?
  /// By which records were told from foreign files.
  private let layout: RecordLayout?

  /// Waits, for a short time, for a moment without changes.
  init(of core: StoreCore, unless isStopped: () -> Bool) throws {
    let open = try core.root.opened()
    layout = open.map { core.layout(of: $0) }
    guard let open, let control = core.countersFile(of: open),
      // A process that is stopped in the middle of a change holds up no enumeration for long.
      let start = try core.stripes.settledCounters(of: control, within: core.patience, unless: isStopped)
    else {
      counters = nil
      return
    }
    counters = (control, start)
  }

  /// - Parameter found: nil if that was not everything.
  func apply(_ found: Enumeration?) {
    guard let found, let (control, start) = counters else { return }
    // By another layout, or naming, records are foreign files.
    guard control.hint.map({ $0.layout == layout }) ?? found.isOfOneLayout else { return }
    control.correctCounters(to: found.left, removed: found.removed, since: start)
  }
}
