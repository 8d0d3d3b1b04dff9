internal import Posix
internal import SystemPackage

/// Records whose stripe another change had when a walk met them.
///
/// The walk goes on with the rest, and comes back to these at its end. So a process that is stopped while it has a stripe
/// holds up one walk for one short time, and not for each record.
struct BusyRecords<Record> {
  /// The first that were met; of the others, the number.
  private(set) var kept: [Record] = []
  private var others: Int64 = 0
  /// One for all of them.
  private var backoff: Backoff

  /// How many are kept: memory is bounded where another process has every stripe.
  private static var capacity: Int { 4096 }

  /// - Parameter budget: how long to wait for all of them together.
  init(waiting budget: Duration) { backoff = Backoff(timeout: budget) }

  var count: Int64 { others + Int64(kept.count) }

  mutating func add(_ record: Record) {
    guard kept.count < Self.capacity else {
      others += 1
      return
    }
    kept.append(record)
  }

  /// Tries each that is kept, and those that are still busy again, until the budget is spent.
  ///
  /// - Parameters:
  ///   - isStopped: asked before each record and each wait.
  ///   - isStillBusy: tries one.
  mutating func comeBack(unless isStopped: () -> Bool, _ isStillBusy: (Record) -> Bool) {
    guard !kept.isEmpty else { return }
    repeat {
      kept = kept.filter { isStopped() || isStillBusy($0) }
    } while !kept.isEmpty && !isStopped() && backoff.wait()
  }
}

/// The outcome of the removal of a record.
enum RecordRemoval {
  /// As it was.
  case removed(RecordEntry)
  /// It is gone already, or not what was to go.
  case stays
  /// Another change has its stripe.
  case busy
}

extension BlobStoreError {
  /// Records were left because other changes had their stripes.
  init(busy count: Int64, for time: Duration, at path: FilePath) {
    self.init(
      .busy, "records left, because other changes had them, or keys that share their locks, for \(time): \(count)",
      path: path)
  }
}
