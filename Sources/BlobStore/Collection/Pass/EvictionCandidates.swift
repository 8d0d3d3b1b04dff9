internal import BlobRecord
internal import Posix

/// The first records in the order of eviction that a walk has returned, in bounded memory, to avoid a second walk.
///
/// Invariant: While it `isUsable`, it contains all returned evictable records that are not after `newest`.
struct EvictionCandidates {
  private let capacity: Int
  private var candidates: [EvictionCandidate] = []
  /// The last place that is stored, or `nil` if no record was dropped. Records with later places were dropped.
  private var newest: UnixTime?
  /// A Boolean value that indicates whether the capacity suffices for all records with about the same place.
  private(set) var isUsable = true

  /// - Parameter capacity: The number of stored records, which is temporarily exceeded by an eighth.
  init(capacity: Int) { self.capacity = capacity }

  /// A Boolean value that indicates whether the candidates are all evictable records.
  var isComplete: Bool { isUsable && newest == nil }

  func concerns(_ time: UnixTime) -> Bool {
    guard isUsable else { return false }
    return newest.map { time <= $0 } ?? true
  }

  /// - Parameter ages: The histogram of all records that were returned, including this one.
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

  func suffice(forBytes bytes: Int64, records: Int64) -> Bool {
    guard isUsable else { return false }
    return Int64(candidates.count) >= records
      && candidates.reduce(Int64(0)) { $0.saturatingAdding($1.size.bytes) } >= bytes
  }

  /// Removes and returns the candidates in the order of eviction.
  mutating func take() -> [EvictionCandidate] {
    defer { candidates = [] }
    // Only times are sorted, because records are large.
    let order = candidates.indices.map { (time: candidates[$0].place, index: $0) }.sorted { $0.time < $1.time }
    return order.map { candidates[$0.index] }
  }
}

/// A record that may be evicted, with the state in which the walk has returned it.
struct EvictionCandidate {
  let path: RecordPath
  let standing: EvictionStanding
  let size: RecordSize
  /// The update time in the header, which differs if the record has been stored or touched since.
  private let updateTime: UInt64
  /// The file's state, which detects a rewritten header, and a second store within the same second with another file.
  /// `nil` if the walk itself has written the header.
  private let fileState: FileState?
  /// The checksum, which detects a second store into the same file within a tick of the file system's clock.
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

  /// The place in the order, of which the earliest is evicted first.
  var place: UnixTime { standing.place }

  func age(at now: UnixTime) -> Int64 { now.seconds.saturatingSubtracting(Int64(clamping: updateTime)) }

  func isStillEvictable(_ current: RecordEntry) -> Bool {
    (current.state == .live || current.state == .expired) && isStill(current)
  }

  private func isStill(_ current: RecordEntry) -> Bool {
    (fileState == nil || current.fileState == fileState) && current.fileSize == size.bytes
      && current.header.map { $0.updateTime == updateTime && $0.payloadChecksum == checksum } ?? false
  }
}
