package import BlobRecord

/// Decides, walk by walk, which records are evicted to free a number of bytes and records, those with the earliest places first.
///
/// The first walk `measure`s. Each later one `decide`s: records older than the boundary go in any order. Records in a
/// boundary wider than one second wait. They are few, and `finishWalk` returns them by age; or another walk narrows the
/// boundary. So memory is bounded, and only records of equal age go in no order.
package struct EvictionPlan<Record> {
  package enum Decision: Sendable {
    case evict, keep
    /// `finishWalk` tells.
    case later
  }

  private let maximumCandidates: Int
  /// Of what was measured.
  package private(set) var histogram = AgeHistogram()
  /// nil for no boundary: everything goes.
  private var boundary: ClosedRange<UnixTime>?
  /// Before this, earlier walks have decided.
  private var decidedBefore: UnixTime?
  /// The part of a boundary one second wide that still has to go.
  private var boundaryBytes: Int64 = 0
  private var boundaryRecords: Int64 = 0
  private var holdsCandidates = false
  /// Where those records lie that go next, should more have to be freed later.
  private var nextTimes: ClosedRange<UnixTime>?
  private var candidates: [(time: UnixTime, record: Record)] = []
  /// The amount that must still be freed.
  package private(set) var bytesToFree: Int64 = 0
  package private(set) var recordsToFree: Int64 = 0

  /// Whether nothing more has to go.
  package var isDone: Bool { bytesToFree <= 0 && recordsToFree <= 0 }

  /// - Parameter maximumCandidates: how many records are put off in memory at the most.
  package init(maximumCandidates: Int = 65_536) {
    self.maximumCandidates = maximumCandidates
  }

  package mutating func measure(_ time: UnixTime, bytes: Int64) {
    histogram.add(time, bytes: bytes)
  }

  /// Ends the measuring.
  ///
  /// - Returns: whether there is anything to free, and a walk to be made for it.
  package mutating func start(freeing bytes: Int64, records: Int64 = 0) -> Bool {
    bytesToFree = bytes
    recordsToFree = records
    setBoundary(within: nil)
    return !isDone
  }

  /// Whether anything may become of a record with this update time: those that are newer stay.
  package func concerns(_ time: UnixTime) -> Bool {
    guard let boundary else { return true }
    return time <= max(boundary.upperBound, nextTimes?.upperBound ?? boundary.upperBound)
  }

  /// Whether a record that is kept is one of the next to go: few enough for `maximumCandidates`.
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
      // A record stored since the measuring may add to the counted ones.
      if candidates.count < maximumCandidates { candidates.append((time, record())) }
    } else {
      histogram.add(time, bytes: bytes)
    }
    return .later
  }

  /// A record of this size is gone.
  package mutating func didFree(bytes: Int64) {
    bytesToFree.saturatingAdd(-bytes)
    recordsToFree.saturatingAdd(-1)
  }

  /// Ends a walk.
  ///
  /// - Returns: the records that were put off, those with the earliest places first: to be removed in this order until all `isDone`.
  ///   `needsWalk` is true if there is another walk to be made instead.
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

  /// Takes the boundary from the histogram, which it empties for a narrower one.
  private mutating func setBoundary(within outer: ClosedRange<UnixTime>?) {
    let found = histogram.boundary(freeing: bytesToFree, records: recordsToFree)
    nextTimes =
      outer == nil
      ? found.flatMap { histogram.times(from: $0.times.lowerBound, holding: Int64(maximumCandidates)) } : nil
    histogram = AgeHistogram()
    // Inside an outer boundary, all of it goes if it does not suffice.
    boundary = found?.times ?? outer.map { $0.upperBound...$0.upperBound }
    boundaryBytes = found.map { max(0, bytesToFree - $0.olderBytes) } ?? .max
    boundaryRecords = found.map { max(0, recordsToFree - $0.olderRecords) } ?? .max
    holdsCandidates = found.map { $0.bucket.records <= maximumCandidates / 2 } ?? false
  }
}

/// Bytes by update time, in bounded memory.
///
/// It finds the time before which records must go to free a number of bytes. Times fall into `bucketCount` buckets of
/// 2^shift seconds. A time outside the buckets doubles their width until it fits.
///
/// Invariant: every time added lies in bucket `index(of:)`, which is in 0..<bucketCount.
package struct AgeHistogram {
  package struct Bucket: Equatable, Sendable {
    package var bytes: Int64 = 0
    package var records: Int64 = 0
  }

  /// Where freeing from the oldest on comes to an end.
  package struct Boundary: Equatable, Sendable {
    package let times: ClosedRange<UnixTime>
    package let bucket: Bucket
    /// The sum of the buckets before.
    package let olderBytes: Int64
    package let olderRecords: Int64
  }

  /// Sixteen thousand seconds, four hours and a half, are told apart to the second, in 256 KiB.
  package static let bucketCount: UInt64 = 16_384

  private var buckets = [Bucket](repeating: Bucket(), count: Int(bucketCount))
  private var shift: UInt64 = 0
  /// The number of the first bucket, counted from the lowest time there is.
  private var first: UInt64?

  package init() {}

  package mutating func add(_ time: UnixTime, bytes: Int64) {
    let position = Self.position(of: time)
    makeRoom(for: position)
    let index = Int((position >> shift) - first!)
    buckets[index].bytes.saturatingAdd(bytes)
    buckets[index].records += 1
  }

  /// The bucket in which freeing from the oldest on reaches both `bytes` and `records`.
  ///
  /// It comes with its contents; nil if all buckets together do not suffice.
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

  /// The newest time up to which there are at most so many records.
  ///
  /// nil if the first bucket with records holds more.
  package func newestTime(holding records: Int64) -> UnixTime? {
    guard let first, let oldest = buckets.firstIndex(where: { $0.records > 0 }) else { return nil }
    return times(from: Self.time(at: (first + UInt64(oldest)) << shift), holding: records)?.upperBound
  }

  /// The times from the bucket of `start` on that hold at most so many records.
  ///
  /// nil if that bucket holds more.
  package func times(from start: UnixTime, holding records: Int64) -> ClosedRange<UnixTime>? {
    guard let first else { return nil }
    let position = Self.position(of: start) >> shift
    guard position >= first, position - first < Self.bucketCount else { return nil }
    var sum: Int64 = 0
    var end: UInt64?
    // Empty ones may lie past the last time there is.
    for index in Int(position - first)..<buckets.count where buckets[index].records > 0 {
      sum += buckets[index].records
      guard sum <= records else { break }
      end = ((first + UInt64(index)) << shift) | (1 << shift &- 1)
    }
    return end.map { Self.time(at: position << shift)...Self.time(at: $0) }
  }

  private mutating func makeRoom(for position: UInt64) {
    guard let oldFirst = first else {
      // Earlier and later times are as likely as each other.
      first = (position >> shift) &- min(position >> shift, Self.bucketCount / 2)
      return
    }
    // Subtracted, because the sum overflows for the last times there are.
    guard position >> shift < oldFirst || (position >> shift) - oldFirst >= Self.bucketCount else { return }
    let used = buckets.indices.filter { buckets[$0].records > 0 }
    let lowest = used.first.map { (oldFirst + UInt64($0)) << shift } ?? position
    let highest = used.last.map { (oldFirst + UInt64($0)) << shift } ?? position
    let low = min(lowest, position)
    let high = max(highest, position)
    var newShift = shift
    while (high >> newShift) - (low >> newShift) >= Self.bucketCount { newShift += 1 }
    // Half of the buckets that are left over lie before: times that come in falling order do not move all each time.
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

  /// Times as unsigned numbers in the same order, so that widths never overflow.
  private static func position(of time: UnixTime) -> UInt64 {
    UInt64(bitPattern: time.seconds) ^ (1 << 63)
  }

  private static func time(at position: UInt64) -> UnixTime {
    UnixTime(seconds: Int64(bitPattern: position ^ (1 << 63)))
  }
}
