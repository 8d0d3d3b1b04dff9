internal import Posix
internal import SystemPackage

/// Records whose stripe was busy when a walk returned them.
///
/// The walk continues, and retries these records at its end. Therefore, a suspended process that holds a stripe delays
/// a walk only once, for a short time, rather than once for each record.
struct BusyRecords<Record> {
  /// The first busy records; only the number of the others is stored.
  private(set) var kept: [Record] = []
  private var others: Int64 = 0
  private var backoff: Backoff

  /// The maximum number of stored records, which bounds memory if another process holds every stripe.
  private static var capacity: Int { 4096 }

  /// - Parameter budget: The total time to wait for all records.
  init(waiting budget: Duration) { backoff = Backoff(timeout: budget) }

  var count: Int64 { others + Int64(kept.count) }

  mutating func add(_ record: Record) {
    guard kept.count < Self.capacity else {
      others += 1
      return
    }
    kept.append(record)
  }

  /// Retries the stored records until none is busy, `isStopped` returns `true`, or the time is spent.
  mutating func comeBack(unless isStopped: () -> Bool, _ isStillBusy: (Record) -> Bool) {
    guard !kept.isEmpty else { return }
    repeat {
      kept = kept.filter { isStopped() || isStillBusy($0) }
    } while !kept.isEmpty && !isStopped() && backoff.wait()
  }
}

enum RecordRemoval {
  case removed(RecordEntry)
  /// The record no longer exists or is no longer due.
  case stays
  /// Another change holds the record's stripe.
  case busy
}

extension BlobStoreError {
  init(busy count: Int64, for time: Duration, at path: FilePath) {
    self.init(
      .busy, "records left, because other changes had them, or keys that share their locks, for \(time): \(count)",
      path: path)
  }
}
