/// The records that are next to go after those that a size pass removes.
///
/// They are known from its walk, so that a steady stream of stores does not walk the directory each time.
///
/// Later changes of a record are found out when it is removed. A record that was unlocked since the walk is not among
/// them, however old: the next walk finds it.
struct EvictionQueue {
  /// Some ten MiB of them.
  static let capacity = 65_536

  /// The latest place first, once sealed.
  private var candidates: [EvictionCandidate] = []

  private var bytes: Int64 = 0
  /// Whether a look ahead has found no more than these, so that another one would be in vain.
  var areAll = false

  var isEmpty: Bool { candidates.isEmpty }

  /// Whether they will not fill the recycling bin.
  func areFewer(thanFill batch: EvictionBatch) -> Bool {
    !areAll && batch.isLessThanBin(files: Int64(candidates.count), bytes: bytes)
  }

  mutating func add(_ candidate: EvictionCandidate) {
    guard candidates.count < Self.capacity else { return }
    candidates.append(candidate)
    bytes.saturatingAdd(candidate.size.bytes)
  }

  /// Puts them in order, and forgets all but so many.
  mutating func seal(keeping count: Int64) {
    candidates.sort { $0.place > $1.place }
    let surplus = candidates.prefix(max(0, candidates.count - Int(clamping: count)))
    bytes = surplus.reduce(bytes) { $0.saturatingSubtracting($1.size.bytes) }
    candidates.removeFirst(surplus.count)
  }

  /// Takes the record that is next to be evicted.
  mutating func next() -> EvictionCandidate? {
    let candidate = candidates.popLast()
    if let candidate { bytes.saturatingAdd(-candidate.size.bytes) }
    return candidate
  }
}
