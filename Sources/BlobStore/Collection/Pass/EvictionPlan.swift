package import BlobRecord

/// A plan that selects, walk by walk, the records with the earliest places to free a number of bytes and records.
///
/// The first walk calls `measure`, and each later one `decide`. Records before the boundary are evicted in any order.
/// If the boundary is wider than one second, its records are deferred: if they are few, `finishWalk` returns them
/// sorted; otherwise, another walk narrows the boundary. Therefore, memory is bounded, and only records with equal
/// places have no order.
package struct EvictionPlan<Record> {
  package enum Decision: Sendable {
    case evict, keep
    /// `finishWalk` decides.
    case later
  }

  private let maximumCandidates: Int
  package private(set) var histogram = AgeHistogram()
  /// The boundary, or `nil` if all records are evicted.
  private var boundary: ClosedRange<UnixTime>?
  /// The time before which earlier walks have decided.
  private var decidedBefore: UnixTime?
  /// The amount that must still be evicted within a boundary of one second.
  private var boundaryBytes: Int64 = 0
  private var boundaryRecords: Int64 = 0
  private var holdsCandidates = false
  /// The places of the records that would be evicted next.
  private var nextTimes: ClosedRange<UnixTime>?
  private var candidates: [(time: UnixTime, record: Record)] = []
  package private(set) var bytesToFree: Int64 = 0
  package private(set) var recordsToFree: Int64 = 0

  package var isDone: Bool { bytesToFree <= 0 && recordsToFree <= 0 }

  /// - Parameter maximumCandidates: The maximum number of deferred records in memory.
  package init(maximumCandidates: Int = 65_536) {
    self.maximumCandidates = maximumCandidates
  }

  package mutating func measure(_ time: UnixTime, bytes: Int64) {
    histogram.add(time, bytes: bytes)
  }

  /// Ends the measurement. Returns a Boolean value that indicates whether a walk is required to free the amount.
  package mutating func start(freeing bytes: Int64, records: Int64 = 0) -> Bool {
    bytesToFree = bytes
    recordsToFree = records
    setBoundary(within: nil)
    return !isDone
  }

  /// Returns a Boolean value that indicates whether the plan may evict or remember a record with this place.
  package func concerns(_ time: UnixTime) -> Bool {
    guard let boundary else { return true }
    return time <= max(boundary.upperBound, nextTimes?.upperBound ?? boundary.upperBound)
  }

  /// Returns a Boolean value that indicates whether a remaining record is one of the `maximumCandidates` next ones.
  package func isNext(_ time: UnixTime) -> Bool { nextTimes?.contains(time) ?? false }

  package mutating func decide(_ time: UnixTime, bytes: Int64, _ record: @autoclosure () -> Record) -> Decision {
    if let decidedBefore, time < decidedBefore { return .keep }
    guard let boundary else { return .evict }
    if time < boundary.lowerBound { return .evict }
    guard time <= boundary.upperBound else { return .keep }
    if boundary.lowerBound == boundary.upperBound {
      guard boundaryBytes > 0 || boundaryRecords > 0 else { return .keep }
      boundaryBytes -= min(bytes, boundaryBytes)
      boundaryRecords -= min(1, boundaryRecords)
      return .evict
    }
    if holdsCandidates {
      // A record that was stored after the measurement may be in excess of the counted ones.
      if candidates.count < maximumCandidates { candidates.append((time, record())) }
    } else {
      histogram.add(time, bytes: bytes)
    }
    return .later
  }

  package mutating func didFree(bytes: Int64) {
    bytesToFree.saturatingAdd(-bytes)
    recordsToFree.saturatingAdd(-1)
  }

  /// Ends a walk. Returns the deferred records in the order of their removal until `isDone`, or whether to walk again.
  package mutating func finishWalk() -> (candidates: [Record], needsWalk: Bool) {
    defer { candidates = [] }
    guard !isDone, let boundary, boundary.lowerBound < boundary.upperBound else { return ([], false) }
    if holdsCandidates {
      return (candidates.sorted { $0.time < $1.time }.map(\.record), false)
    }
    decidedBefore = boundary.lowerBound
    setBoundary(within: boundary)
    return ([], true)
  }

  /// Determines the boundary from the histogram, and empties the histogram for a narrower boundary.
  private mutating func setBoundary(within outer: ClosedRange<UnixTime>?) {
    let found = histogram.boundary(freeing: bytesToFree, records: recordsToFree)
    nextTimes =
      outer == nil
      ? found.flatMap { histogram.times(from: $0.times.lowerBound, holding: Int64(maximumCandidates)) } : nil
    histogram = AgeHistogram()
    // If an outer boundary does not suffice, all of it is evicted.
    boundary = found?.times ?? outer.map { $0.upperBound...$0.upperBound }
    boundaryBytes = found.map { max(0, bytesToFree - $0.olderBytes) } ?? .max
    boundaryRecords = found.map { max(0, recordsToFree - $0.olderRecords) } ?? .max
    holdsCandidates = found.map { $0.bucket.records <= maximumCandidates / 2 } ?? false
  }
}

/// A histogram of bytes by update time, in bounded memory.
///
/// It determines the time before which records must be removed to free a number of bytes. Times are sorted into
/// `bucketCount` buckets of 2^shift seconds. A time outside the buckets doubles their width until it fits.
///
/// Invariant: Every added time is in bucket `index(of:)`, which is in 0..<bucketCount.
package struct AgeHistogram {
  package struct Bucket: Equatable, Sendable {
    package var bytes: Int64 = 0
    package var records: Int64 = 0
  }

  /// The bucket in which an eviction that starts with the oldest record ends.
  package struct Boundary: Equatable, Sendable {
    package let times: ClosedRange<UnixTime>
    package let bucket: Bucket
    /// The sums of the buckets before this one.
    package let olderBytes: Int64
    package let olderRecords: Int64
  }

  /// The number of buckets. They resolve four and a half hours to the second, in 256 KiB.
  package static let bucketCount: UInt64 = 16_384

  private var buckets = [Bucket](repeating: Bucket(), count: Int(bucketCount))
  private var shift: UInt64 = 0
  /// The number of the first bucket, relative to the earliest possible time.
  private var first: UInt64?

  package init() {}

  package mutating func add(_ time: UnixTime, bytes: Int64) {
    let position = Self.position(of: time)
    makeRoom(for: position)
    let index = Int((position >> shift) - first!)
    buckets[index].bytes.saturatingAdd(bytes)
    buckets[index].records += 1
  }

  /// Returns the bucket in which eviction from the oldest record on reaches both sums, or `nil` if all do not suffice.
  package func boundary(freeing bytes: Int64, records: Int64 = 0) -> Boundary? {
    guard let first else { return nil }
    var older = Bucket()
    for (index, bucket) in buckets.enumerated() where bucket.records > 0 {
      let sum = Bucket(bytes: older.bytes.saturatingAdding(bucket.bytes), records: older.records + bucket.records)
      guard sum.bytes >= bytes, sum.records >= records else {
        older = sum
        continue
      }
      let start = (first + UInt64(index)) << shift
      return Boundary(
        times: Self.time(at: start)...Self.time(at: start | (1 << shift &- 1)), bucket: bucket, olderBytes: older.bytes,
        olderRecords: older.records)
    }
    return nil
  }

  /// Returns the latest time up to which there are at most `records` records, or `nil` if the first bucket has more.
  package func newestTime(holding records: Int64) -> UnixTime? {
    guard let first, let oldest = buckets.firstIndex(where: { $0.records > 0 }) else { return nil }
    return times(from: Self.time(at: (first + UInt64(oldest)) << shift), holding: records)?.upperBound
  }

  /// Returns the times from the bucket of `start` on with at most `records` records, or `nil` if that bucket has more.
  package func times(from start: UnixTime, holding records: Int64) -> ClosedRange<UnixTime>? {
    guard let first else { return nil }
    let position = Self.position(of: start) >> shift
    guard position >= first, position - first < Self.bucketCount else { return nil }
    var sum: Int64 = 0
    var end: UInt64?
    // Empty buckets may be after the last possible time.
    for index in Int(position - first)..<buckets.count where buckets[index].records > 0 {
      sum += buckets[index].records
      guard sum <= records else { break }
      end = ((first + UInt64(index)) << shift) | (1 << shift &- 1)
    }
    return end.map { Self.time(at: position << shift)...Self.time(at: $0) }
  }

  private mutating func makeRoom(for position: UInt64) {
    guard let oldFirst = first else {
      // Earlier and later times are equally likely.
      first = (position >> shift) &- min(position >> shift, Self.bucketCount / 2)
      return
    }
    // Subtracted, because the sum overflows for the last possible times.
    guard position >> shift < oldFirst || (position >> shift) - oldFirst >= Self.bucketCount else { return }
    let used = buckets.indices.filter { buckets[$0].records > 0 }
    let lowest = used.first.map { (oldFirst + UInt64($0)) << shift } ?? position
    let highest = used.last.map { (oldFirst + UInt64($0)) << shift } ?? position
    let low = min(lowest, position)
    let high = max(highest, position)
    var newShift = shift
    while (high >> newShift) - (low >> newShift) >= Self.bucketCount { newShift += 1 }
    // Half of the unused buckets are before the used ones, so that descending times do not move all buckets each time.
    let slack = Self.bucketCount - 1 - ((high >> newShift) - (low >> newShift))
    let newFirst = (low >> newShift) - min(low >> newShift, slack / 2)
    var moved = [Bucket](repeating: Bucket(), count: Int(Self.bucketCount))
    for index in used {
      let target = Int((((oldFirst + UInt64(index)) << shift) >> newShift) - newFirst)
      moved[target].bytes.saturatingAdd(buckets[index].bytes)
      moved[target].records += buckets[index].records
    }
    buckets = moved
    shift = newShift
    first = newFirst
  }

  /// Converts times to unsigned numbers in the same order, so that widths never overflow.
  private static func position(of time: UnixTime) -> UInt64 {
    UInt64(bitPattern: time.seconds) ^ (1 << 63)
  }

  private static func time(at position: UInt64) -> UnixTime {
    UnixTime(seconds: Int64(bitPattern: position ^ (1 << 63)))
  }
}
