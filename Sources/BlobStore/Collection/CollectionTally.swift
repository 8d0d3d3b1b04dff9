internal import BlobRecord
internal import Logging
internal import SystemPackage

/// The report and progress of a collection, and its sums for the counters.
final class CollectionTally {
  private let options: BlobStore.CollectionOptions
  private let logger: Logger
  var report: BlobStore.CollectionReport
  /// The remaining and removed records, as the directory's counters count them.
  var counted = Enumeration()
  /// The number of subdirectories that were skipped because their marks show nothing to remove.
  var passedOver = 0
  /// The number of subdirectories and files that were not counted because their size is unknown.
  var unmeasured = 0
  /// The part of the directory that a dry run has covered before it was cut short.
  var walked: OrderedEntries.Part?
  /// A Boolean value that indicates whether one of the 32 subdirectories of an `adaptive` directory remains.
  var hasNarrowSubdirectory = false
  var evictions = EvictionSums()
  /// Due records whose stripe was busy.
  var busy: BusyRecords<PostponedRemoval>
  /// The seconds spent in `meanwhile`, which count as the time of other evictions.
  var secondsMeanwhile = 0.0
  /// A closure that is called between two files. During a walk ahead, it evicts records.
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

  /// The remaining records and bytes, including the quarantine.
  var left: BlobStore.UsageEstimate { BlobStore.UsageEstimate(records: report.recordsAfter, bytes: report.bytesAfter) }

  /// A Boolean value that indicates whether the collection was complete, and none of the 32 subdirectories remains.
  var hasOnlyWideSubdirectories: Bool {
    let isWhole = !report.wasCutShort && !report.wasStopped && unmeasured == 0 && report.failed == 0
    return isWhole && !options.dryRun && !hasNarrowSubdirectory
  }

  /// `counted`, or `nil` if the collection has not seen everything.
  var enumeration: Enumeration? {
    let isWhole = !report.wasCutShort && !report.wasStopped && unmeasured == 0 && passedOver == 0
    return !options.dryRun && isWhole ? counted : nil
  }
}

// MARK: - Stopping and progress

extension CollectionTally {
  /// A Boolean value that indicates whether to end after the current file. Once `true`, it stays `true`.
  var isStopped: Bool {
    if !report.wasStopped, Task.isCancelled || options.isStopped?() == true { report.wasStopped = true }
    return report.wasStopped
  }

  /// A Boolean value that indicates whether to no longer wait for stripes that other processes hold.
  var givesUpWaiting: Bool { isStopped || options.givesUpWaiting?() == true }

  func begin(_ phase: BlobStore.CollectionProgress.Phase) {
    progress.phase = phase
    progress.examined = 0
  }

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
  /// Counts a record that stays, as far as is known yet.
  func stays(_ size: RecordSize) {
    report.bytesAfter.saturatingAdd(size.bytes)
    report.recordsAfter += 1
    counted.left = counted.left + BlobStore.UsageEstimate(size)
  }

  /// Corrects the counts after the removal of a record that was counted as staying.
  func isGone(_ size: RecordSize) {
    counted.left = counted.left - BlobStore.UsageEstimate(size)
    report.bytesAfter.saturatingAdd(-size.bytes)
    report.recordsAfter -= 1
  }

  /// Counts a record that was removed, or would be in a dry run.
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

  /// Logs and counts a file that cannot be read or removed, which does not end the collection.
  func noteFailure(_ error: any Error) {
    report.failed += 1
    logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
  }
}

struct Enumeration {
  /// The existing records, without the ones that the enumeration itself has removed.
  var left = BlobStore.UsageEstimate()
  var removed = BlobStore.UsageEstimate()
  /// `false` if the enumeration has found a file that may be a record of another layout.
  private(set) var isOfOneLayout = true

  mutating func noteForeign(_ file: String) {
    // Records never have hidden names, in any layout.
    if FilePath(file).lastComponent?.string.utf8.first != UInt8(ascii: ".") { isOfOneLayout = false }
  }
}

struct CounterCorrection {
  private let core: StoreCore
  /// The control file and its counters before the enumeration, or `nil` if the file must not be written.
  private let counters: (control: ControlFile, start: CounterReading)?
  private let layout: RecordLayout?

  /// Waits for a short time until no change is in progress.
  init(of core: StoreCore, unless isStopped: () -> Bool) throws {
    self.core = core
    let open = try core.root.opened()
    layout = open.map { core.layout(of: $0) }
    guard let open, let control = core.countersFile(of: open),
      // A process that is suspended during a change does not delay an enumeration for long.
      let start = try core.stripes.countersBeforeEnumeration(of: control, within: core.patience, unless: isStopped)
    else {
      counters = nil
      return
    }
    counters = (control, start)
  }

  /// A Boolean value that indicates whether every change that began before the enumeration had ended.
  var isSettled: Bool { counters?.start.isSettled == true }

  /// Waits again until no change is in progress, if the counters must be lowered.
  ///
  /// - Parameter found: The result, or `nil` if the enumeration was incomplete.
  func apply(_ found: Enumeration?, unless isStopped: () -> Bool) throws {
    guard let found, let (control, start) = counters else { return }
    // With another layout or naming, records look like foreign files.
    guard control.hint.map({ $0.layout == layout }) ?? found.isOfOneLayout else { return }
    try control.correctCounters(to: found.left, removed: found.removed, since: start) {
      try core.stripes.settleChanges(in: control, within: core.patience, unless: isStopped)
    }
  }
}
