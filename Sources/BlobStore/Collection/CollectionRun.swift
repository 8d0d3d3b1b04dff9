internal import BlobRecord
internal import Logging
internal import Posix

/// One collection, by the holder of the collector's lock: records that are due go, then those above the limits.
///
/// The passes run one after the other. They share the tally and the remover. Each measures what the one before has
/// left, and knows nothing else of it.
final class CollectionRun {
  let core: StoreCore
  let options: BlobStore.CollectionOptions
  let control: ControlFile?
  let tally: CollectionTally
  let sizes: SizePass
  private let expiry: ExpiryPass

  /// - Parameters:
  ///   - control: nil if there is no control file, or none that may be used.
  ///   - aim: what the size pass has to reach beside the limits.
  init(
    _ core: StoreCore, _ options: BlobStore.CollectionOptions, _ control: ControlFile?,
    _ aim: SizePass.Aim = SizePass.Aim()
  ) {
    self.core = core
    self.options = options
    self.control = control
    tally = CollectionTally(core, options, control)
    let context = PassContext(core, options, control, tally)
    sizes = SizePass(context, aim)
    expiry = ExpiryPass(context, sizes)
  }

  var report: BlobStore.CollectionReport { tally.report }

  /// Makes a whole collection, which corrects the counters.
  func collect() throws -> BlobStore.CollectionReport {
    let clock = CollectionClock(self, .whole)
    let correction = try CounterCorrection(of: core) { tally.isStopped }
    try runPasses()
    correction.apply(tally.enumeration)
    clock.end()
    return report
  }

  /// Removes what has expired, and finds the records that are next to go.
  ///
  /// It corrects no counters: what is stored meanwhile would count twice, and that much be evicted too early.
  func lookAhead() throws {
    let clock = CollectionClock(self, .lookAhead)
    try runPasses()
    clock.end()
  }

  private func runPasses() throws {
    let start = ContinuousClock.now
    try expiry.run { [options] in start.duration(to: .now) >= options.maximumTime ?? .zero }
    do { try trimQuarantine() } catch { tally.noteFailure(error) }
    if !tally.isStopped { try sizes.run() }
    try comeBackToBusy()
    if !tally.isStopped {
      do { try trimBin() } catch { tally.noteFailure(error) }
      do { try tidyPacks() } catch { tally.noteFailure(error) }
    }
    tally.reportProgress()
  }

  private func trimQuarantine() throws {
    guard let quarantine = try core.quarantine() else { return }
    let trimmed = try quarantine.trim(dryRun: options.dryRun)
    tally.report.damaged += trimmed.files
    tally.report.bytesFreed.saturatingAdd(trimmed.bytes)
    sizes.quarantineBytes = trimmed.bytesLeft
    tally.report.bytesAfter.saturatingAdd(trimmed.bytesLeft)
    if let failure = trimmed.failure { throw failure }
  }

  /// Removes old files from the recycling bin, and those beyond its limit.
  private func trimBin() throws {
    let age = options.emptiesBin ? nil : Int64(clamping: options.recycledFileAge.components.seconds)
    let (removed, left) = try core.supply.emptyBin(
      olderThan: age.map { $0.multipliedReportingOverflow(by: 1_000_000_000).partialValue }, to: core.recyclingLimit,
      dryRun: options.dryRun)
    tally.report.recycled = removed.files
    tally.report.recycledBytesFreed = removed.bytes
    tally.report.recycledBytesAfter = left.bytes
  }
}

// MARK: - What was busy

/// A record that had to go while another change had its stripe.
enum PostponedRemoval {
  /// It was due when it was met, and goes if it still is.
  case due(RecordPath, CollectedRecord.Cause)
  /// One of the first to be evicted, which is removed if that is still needed.
  case candidate(EvictionCandidate)
}

/// A collection takes stripes by trying: it has the collector's lock, and a process that has a stripe may be stopped.
extension CollectionRun {
  /// Comes back to what was busy, for one short time in all, and leaves what still is.
  private func comeBackToBusy() throws {
    guard tally.busy.count > 0, let open = try core.root.opened() else { return }
    let subdirectories = LastSubdirectory(open)
    var left = tally.busy
    left.comeBack {
      tally.isStopped
    } _: { removal in
      do {
        return try isStillBusy(removal, in: subdirectories)
      } catch {
        tally.noteFailure(error)
        return false
      }
    }
    guard left.count > 0, !tally.isStopped else { return }
    tally.report.busy = left.count
    tally.report.failed += left.count
    let error = BlobStoreError(busy: left.count, for: core.patience, at: core.root.path)
    core.configuration.logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
  }

  private func isStillBusy(_ removal: PostponedRemoval, in subdirectories: LastSubdirectory) throws -> Bool {
    switch removal {
    case .candidate(let candidate): try sizes.isStillBusy(candidate, in: subdirectories)
    case .due(let path, let cause): try expiry.isStillBusy(path, cause, in: subdirectories)
    }
  }
}

/// Takes the time of a collection, tells the observer of it, and records it in the directory.
struct CollectionClock {
  private let run: CollectionRun
  private let kind: CollectionKind
  private let start = ContinuousClock.now

  /// The collection begins.
  init(_ run: CollectionRun, _ kind: CollectionKind) {
    self.run = run
    self.kind = kind
    run.core.collectionObservation.observer?.willBegin()
  }

  /// The collection has come to its end. One that fails is neither told of nor recorded.
  func end() {
    let tally = run.tally
    tally.report.seconds = start.duration(to: .now) / .seconds(1) - tally.secondsMeanwhile
    run.core.collectionObservation.observer?.didEnd(tally.report)
    guard run.core.configuration.access.recordsCollections, !run.options.dryRun else { return }
    run.control?.record(tally.report, tally.evictions, kind, at: run.core.configuration.now())
  }
}
