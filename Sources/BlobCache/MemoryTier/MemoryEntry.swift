internal import BlobRecord
internal import BlobStore
internal import Synchronization

/// A blob in memory, with the data to check whether it is still valid.
///
/// A hit reads an entry that is seldom in the processor's cache. Therefore the entry contains copies of the fields of
/// `use`, and a hit reads `use` itself only once a second.
final class MemoryEntry: Sendable {
  let digest: UInt64
  /// The generation that was current before the disk was read.
  let stamp: GenerationStamp
  private let place: GenerationPlace
  /// The last moment whose first use was recorded.
  private let noted = Atomic(UseMoment.none.value)
  private let deadlineSeconds: Atomic<Int64>
  private let updateSeconds: Atomic<Int64>
  let use: RecordUse
  let blob: Blob

  init(blob: Blob, digest: UInt64, stamp: GenerationStamp, place: GenerationPlace, use: RecordUse) {
    self.blob = blob
    self.digest = digest
    self.stamp = stamp
    self.place = place
    self.use = use
    deadlineSeconds = Atomic(use.deadline.seconds)
    updateSeconds = Atomic(use.update)
  }
}

/// A part of a second in which no new update time became known, so that all hits in it have the same result.
struct UseMoment: Equatable {
  fileprivate let value: UInt64

  static let none = UseMoment(value: .max)

  init(_ now: UnixTime, settlements: UInt64) {
    self.init(value: UInt64(truncatingIfNeeded: now.seconds) << 20 | settlements & (1 << 20 - 1))
  }

  private init(value: UInt64) { self.value = value }
}

extension MemoryEntry {
  func isNoted(in moment: UseMoment) -> Bool { noted.load(ordering: .acquiring) == moment.value }

  func note(_ moment: UseMoment) { noted.store(moment.value, ordering: .releasing) }

  /// Counts the load and returns `true` if the entry is known to be valid without system calls.
  func answersAtOnce(_ hit: MemoryHit) -> Bool { place.answersAtOnce(hit, ofDigest: digest, in: stamp.shared) }

  /// Copies the current values of `use`, which only increase.
  func checkUse() {
    guard use.update > updateSeconds.load(ordering: .acquiring) else { return }
    // The deadline is stored first, because a thread that reads the new update time must not read the old deadline.
    deadlineSeconds.max(use.deadline.seconds, ordering: .relaxed)
    updateSeconds.max(use.update, ordering: .releasing)
  }

  /// The last second in which the record is live, as far as the state of the disk is known.
  var deadline: UnixTime { UnixTime(seconds: deadlineSeconds.load(ordering: .relaxed)) }

  /// The blob with the latest known update time of the disk, which touches change.
  var current: Blob {
    let update = updateSeconds.load(ordering: .relaxed)
    guard update > blob.header.lastUpdate.seconds else { return blob }
    var header = blob.header
    header.updateTime = UInt64(clamping: update)
    return Blob(key: blob.key, payload: blob.payload, header: header, extendedData: blob.extendedData)
  }
}

/// The uses of a record: the latest time known on disk and in memory.
///
/// It outlives the blob in memory, so that an eviction does not lose a use that is not on disk yet.
final class RecordUse: Sendable {
  let key: BlobKey
  /// A Boolean value that indicates whether uses change the update time.
  let slides: Bool
  /// The time to live after the update time in seconds.
  private let lifetime: Int64
  private let updateTime: Atomic<Int64>
  private let lastUse: Atomic<Int64>
  private let lastFailure = Atomic(Int64.min)
  private let isNoted = Atomic(false)
  private let isDue = Atomic(false)

  init(header: RecordHeader, key: BlobKey, lifetime: Int64) {
    self.key = key
    self.lifetime = lifetime
    slides = header.ttl == 0
    let update = header.lastUpdate.seconds
    updateTime = Atomic(update)
    lastUse = Atomic(update)
  }

  var deadline: UnixTime { UnixTime(seconds: update).advanced(bySeconds: lifetime) }

  var update: Int64 { updateTime.load(ordering: .relaxed) }
  var latest: Int64 { lastUse.load(ordering: .sequentiallyConsistent) }

  /// Records a use, and returns a Boolean value that indicates whether the time on disk is earlier.
  func use(at now: Int64) -> Bool {
    guard slides, now > update else { return false }
    if latest < now { lastUse.max(now, ordering: .sequentiallyConsistent) }
    return true
  }

  /// Returns whether the disk is at least an interval behind, and no write has failed within the last interval.
  func isOverdue(at now: Int64, interval: Int64) -> Bool {
    func isLongAgo(_ time: Int64) -> Bool { Int128(now) - Int128(time) >= Int128(interval) }
    let failure = lastFailure.load(ordering: .relaxed)
    // A failure in the future happened before the clock was set back.
    return isLongAgo(update) && (failure > now || isLongAgo(failure))
  }

  /// Records that a use could not be written, because of a hard link or another change; it is retried later.
  func wasNotTold(at now: Int64) { lastFailure.store(now, ordering: .relaxed) }

  /// - Returns: `true` for the first call since `settle`.
  func becomesNoted() -> Bool { Self.becomesTrue(isNoted) }

  func becomesDue() -> Bool { Self.becomesTrue(isDue) }

  private static func becomesTrue(_ flag: borrowing Atomic<Bool>) -> Bool {
    !flag.load(ordering: .sequentiallyConsistent) && !flag.exchange(true, ordering: .sequentiallyConsistent)
  }

  /// Records that a use was written to disk, or could not be.
  ///
  /// A concurrent later use either finds the flags cleared, or is found by a read of `latest` after this call,
  /// because these operations are sequentially consistent.
  ///
  /// - Parameter time: The update time on disk if it is known; the deadline depends only on known times.
  func settle(_ time: UnixTime?) {
    if let time { updateTime.store(max(time.seconds, update), ordering: .relaxed) }
    isNoted.store(false, ordering: .sequentiallyConsistent)
    isDue.store(false, ordering: .sequentiallyConsistent)
  }
}
