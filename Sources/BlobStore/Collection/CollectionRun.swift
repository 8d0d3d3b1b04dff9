internal import BlobRecord
internal import Logging
internal import Posix

/// A collection by the holder of the collector's lock, which removes due records, then records in excess of the limits.
///
/// The passes run one after the other and share only the tally and the remover. Each pass measures what the previous
/// one has left.
final class CollectionRun {
  let core: StoreCore
  let options: BlobStore.CollectionOptions
  let control: ControlFile?
  let tally: CollectionTally
  let sizes: SizePass
  private let expiry: ExpiryPass

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

  /// Makes a complete collection, which corrects the counters.
  func collect() throws -> BlobStore.CollectionReport {
    let clock = CollectionClock(self, .whole)
    // A change that is in progress now may still store its record in one of the 32 subdirectories.
    let wasMixed = control?.places == .mixed
    let correction = try CounterCorrection(of: core) { tally.givesUpWaiting }
    try runPasses()
    if wasMixed, correction.isSettled, tally.hasOnlyWideSubdirectories {
      control?.changePlaces(from: .mixed, to: .wide)
    }
    do { try correction.apply(tally.enumeration) { tally.givesUpWaiting } } catch { tally.noteFailure(error) }
    clock.end()
    return report
  }

  /// Removes expired records, and finds the records that will be evicted next. It corrects no counters, because
  /// records that are stored in the meantime would count twice and cause evictions that are too early.
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
    guard let quarantine = try Records(core).quarantine() else { return }
    let trimmed = try quarantine.trim(dryRun: options.dryRun)
    tally.report.damaged += trimmed.files
    tally.report.bytesFreed.saturatingAdd(trimmed.bytes)
    sizes.quarantineBytes = trimmed.bytesLeft
    tally.report.bytesAfter.saturatingAdd(trimmed.bytesLeft)
    if let failure = trimmed.failure { throw failure }
  }

  private func trimBin() throws {
    let age = options.emptiesBin ? nil : Int64(clamping: options.recycledFileAge.components.seconds)
    let (removed, left) = try FileSupply(core: core).emptyBin(
      olderThan: age.map { $0.multipliedReportingOverflow(by: 1_000_000_000).partialValue }, to: core.recyclingLimit,
      dryRun: options.dryRun)
    tally.report.recycled = removed.files
    tally.report.recycledBytesFreed = removed.bytes
    tally.report.recycledBytesAfter = left.bytes
  }
}

// MARK: - Busy records

/// A record that is due but was not removed because its stripe was busy.
enum PostponedRemoval {
  /// A record that was due when the walk returned it, and is removed if it still is.
  case due(RecordPath, CollectedRecord.Cause)
  /// A candidate for eviction, which is removed if its eviction is still required.
  case candidate(EvictionCandidate)
}

/// Stripes are not waited for, because the run holds the collector's lock, and a stripe's holder may be suspended.
extension CollectionRun {
  /// Retries busy records for a short time in total, and leaves records that are still busy.
  private func comeBackToBusy() throws {
    guard tally.busy.count > 0, let open = try core.root.opened() else { return }
    let subdirectories = LastSubdirectory(open)
    var left = tally.busy
    left.comeBack {
      tally.givesUpWaiting
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

/// A clock that measures a collection, notifies the observer, and records the collection in the directory.
struct CollectionClock {
  private let run: CollectionRun
  private let kind: CollectionKind
  private let start = ContinuousClock.now

  init(_ run: CollectionRun, _ kind: CollectionKind) {
    self.run = run
    self.kind = kind
    run.core.collectionObservation.observer?.willBegin()
  }

  /// Ends the measurement. A collection that fails is neither reported nor recorded.
  func end() {
    let tally = run.tally
    tally.report.seconds = start.duration(to: .now) / .seconds(1) - tally.secondsMeanwhile
    run.core.collectionObservation.observer?.didEnd(tally.report)
    guard run.core.configuration.access.recordsCollections, !run.options.dryRun else { return }
    run.control?.record(tally.report, tally.evictions, kind, at: run.core.configuration.now())
  }
}
