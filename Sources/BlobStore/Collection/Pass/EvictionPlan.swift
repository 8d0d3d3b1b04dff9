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
