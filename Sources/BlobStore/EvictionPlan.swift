package import BlobRecord

/// Decides, walk by walk, which records have to go for a number of bytes to be freed: the oldest update times first.
///
/// The first walk `measure`s. After it, each walk `decide`s about the records it meets: those older than the boundary
/// go, in any order, because all of them have to; those in the boundary, when it is more than one second wide, are put
/// off. They are few and are returned by `finishWalk` in order of age, or they are many and a further walk finds a
/// narrower boundary among them. Of a boundary one second wide, as much goes as the older ones leave to be freed. So
/// memory does not grow with the number of records, and records of equal age are all that is taken in no order.
package struct EvictionPlan<Record> {
  package enum Decision: Sendable {
    case evict, keep
    /// `finishWalk` tells.
    case later
  }

  private let maximumCandidates: Int
  private var histogram = AgeHistogram()
  /// nil for no boundary: everything goes.
  private var boundary: ClosedRange<UnixTime>?
  /// Before this, earlier walks have decided.
  private var decidedBefore: UnixTime?
  /// Bytes of a boundary one second wide that still have to go.
  private var boundaryBytes: Int64 = 0
  private var holdsCandidates = false
  private var candidates: [(time: UnixTime, record: Record)] = []
  /// Bytes still to be freed.
  package private(set) var bytesToFree: Int64 = 0

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
  package mutating func start(freeing bytes: Int64) -> Bool {
    bytesToFree = bytes
    setBoundary(within: nil)
    return bytes > 0
  }

  package mutating func decide(_ time: UnixTime, bytes: Int64, _ record: @autoclosure () -> Record) -> Decision {
    if let decidedBefore, time < decidedBefore { return .keep }
    guard let boundary else { return .evict }
    if time < boundary.lowerBound { return .evict }
    guard time <= boundary.upperBound else { return .keep }
    if boundary.lowerBound == boundary.upperBound {
      guard boundaryBytes > 0 else { return .keep }
      boundaryBytes -= min(bytes, boundaryBytes)
      return .evict
    }
    if holdsCandidates {
      // A record stored since the measuring may come on top of what was counted.
      if candidates.count < maximumCandidates { candidates.append((time, record())) }
    } else {
      histogram.add(time, bytes: bytes)
    }
    return .later
  }

  package mutating func didFree(bytes: Int64) {
    bytesToFree.saturatingAdd(-bytes)
  }

  /// Ends a walk.
  ///
  /// - Returns: the records that were put off, oldest first: to be removed in this order while `bytesToFree` is above
  ///   zero. `needsWalk` is true if there is another walk to be made instead.
  package mutating func finishWalk() -> (candidates: [Record], needsWalk: Bool) {
    defer { candidates = [] }
    guard bytesToFree > 0, let boundary, boundary.lowerBound < boundary.upperBound else { return ([], false) }
    if holdsCandidates {
      return (candidates.sorted { $0.time < $1.time }.map(\.record), false)
    }
    decidedBefore = boundary.lowerBound
    setBoundary(within: boundary)
    return ([], true)
  }

  /// Takes the boundary from the histogram, which it empties for a narrower one.
  private mutating func setBoundary(within outer: ClosedRange<UnixTime>?) {
    let found = histogram.boundary(freeing: bytesToFree)
    histogram = AgeHistogram()
    // Inside an outer boundary, all of it goes if it does not suffice.
    boundary = found?.times ?? outer.map { $0.upperBound...$0.upperBound }
    boundaryBytes = found.map { bytesToFree - $0.olderBytes } ?? .max
    holdsCandidates = found.map { $0.bucket.records <= maximumCandidates / 2 } ?? false
  }
}
