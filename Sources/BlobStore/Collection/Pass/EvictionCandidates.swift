internal import BlobRecord

/// The records that are the first to be evicted of those that a walk has met, in bounded memory.
///
/// If they suffice, a size pass need not walk again.
///
/// Invariant: while it `isUsable`, all evictable records that were met and do not come after `newest` in the order are among them.
struct EvictionCandidates {
  private let capacity: Int
  private var candidates: [EvictionCandidate] = []
  /// The last place that is kept: records with later places were dropped. nil if none was.
  private var newest: UnixTime?
  /// A Boolean value that indicates whether the first records can be told apart in this much memory.
  ///
  /// They cannot if too many have about the same place.
  private(set) var isUsable = true

  /// - Parameter capacity: how many to remember; an eighth more for a moment.
  init(capacity: Int) { self.capacity = capacity }

  /// Whether all that may be evicted is here.
  var isComplete: Bool { isUsable && newest == nil }

  /// Returns a Boolean value that indicates whether a record with that place belongs here.
  func concerns(_ time: UnixTime) -> Bool {
    guard isUsable else { return false }
    return newest.map { time <= $0 } ?? true
  }

  /// - Parameter ages: of all that were met, this one included.
  mutating func add(_ candidate: EvictionCandidate, _ ages: AgeHistogram) {
    candidates.append(candidate)
    guard candidates.count > capacity + capacity / 8 else { return }
    newest = ages.newestTime(holding: Int64(capacity))
    if let newest {
      candidates.removeAll { $0.place > newest }
    } else {
      isUsable = false
      candidates = []
    }
  }

  /// Whether removing all of them frees as much.
  func suffice(forBytes bytes: Int64, records: Int64) -> Bool {
    guard isUsable else { return false }
    return Int64(candidates.count) >= records
      && candidates.reduce(Int64(0)) { $0.saturatingAdding($1.size.bytes) } >= bytes
  }

  /// Takes them in the order of eviction.
  mutating func take() -> [EvictionCandidate] {
    defer { candidates = [] }
    // Times alone are moved about: records are large.
    let order = candidates.indices.map { (time: candidates[$0].place, index: $0) }.sorted { $0.time < $1.time }
    return order.map { candidates[$0.index] }
  }
}
