internal import BlobRecord
internal import Posix

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

/// A record that may have to go, as it was when it was met.
struct EvictionCandidate {
  let path: RecordPath
  let standing: EvictionStanding
  let size: RecordSize
  /// As the header has it: the record has been stored or touched since, if this is another.
  private let updateTime: UInt64
  /// Two stores within a second have one update time, but not one file. A header that is written leaves a trace, too.
  /// nil of a record whose header the walk has written itself.
  private let fileState: FileState?
  /// For two stores within a tick of the clock that stamps files, the second of which was given the first one's file again.
  private let checksum: UInt32?

  init(
    _ path: RecordPath, _ header: RecordHeader, _ standing: EvictionStanding, _ size: RecordSize,
    _ fileState: FileState?
  ) {
    self.path = path
    self.standing = standing
    self.size = size
    updateTime = header.updateTime
    checksum = header.payloadChecksum
    self.fileState = fileState
  }

  /// Where it stands in the order: the earliest place goes first.
  var place: UnixTime { standing.place }

  /// Seconds since its last update.
  func age(at now: UnixTime) -> Int64 { now.seconds.saturatingSubtracting(Int64(clamping: updateTime)) }

  /// Whether the record is what it was, and not locked.
  func isStillEvictable(_ current: RecordEntry) -> Bool {
    (current.state == .live || current.state == .expired) && isStill(current)
  }

  private func isStill(_ current: RecordEntry) -> Bool {
    (fileState == nil || current.fileState == fileState) && current.fileSize == size.bytes
      && current.header.map { $0.updateTime == updateTime && $0.payloadChecksum == checksum } ?? false
  }
}
