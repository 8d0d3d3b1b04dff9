internal import BlobRecord
internal import BlobStore
internal import Synchronization

/// A blob in memory, and what says whether it is still what the disk holds.
///
/// A hit reads it from memory that is seldom in the processor's cache. Copies of the use's fields lie here, and a hit
/// reads the use itself once a second.
final class MemoryEntry: Sendable {
  /// Of the file name: finds the generation.
  let digest: UInt64
  /// The generation that was in force before the disk was read.
  let stamp: GenerationStamp
  /// Where generations were when it was kept.
  private let place: GenerationPlace
  /// The moment whose first use has been noted.
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

/// A second in which no update time became known: a second hit in it finds what the first one has found.
struct UseMoment: Equatable {
  fileprivate let value: UInt64

  static let none = UseMoment(value: .max)

  /// - Parameter settlements: how often update times have become known.
  init(_ now: UnixTime, settlements: UInt64) {
    self.init(value: UInt64(truncatingIfNeeded: now.seconds) << 20 | settlements & (1 << 20 - 1))
  }

  private init(value: UInt64) { self.value = value }
}

extension MemoryEntry {
  /// Whether a use was noted in this moment.
  func isNoted(in moment: UseMoment) -> Bool { noted.load(ordering: .acquiring) == moment.value }

  func note(_ moment: UseMoment) { noted.store(moment.value, ordering: .releasing) }

  /// Whether memory may answer with it, if that is certain at once; counts the load if so.
  func answersAtOnce(_ hit: MemoryHit) -> Bool { place.answersAtOnce(hit, ofDigest: digest, in: stamp.shared) }

  /// Takes over what the use says by now. It says later times only.
  func lookAtUse() {
    guard use.update > updateSeconds.load(ordering: .acquiring) else { return }
    // First: who finds the new update time must not find the old deadline.
    deadlineSeconds.max(use.deadline.seconds, ordering: .relaxed)
    updateSeconds.max(use.update, ordering: .releasing)
  }

  /// The last second in which the record is live, as far as the disk knows.
  var deadline: UnixTime { UnixTime(seconds: deadlineSeconds.load(ordering: .relaxed)) }

  /// The blob, with the update time that the disk has as far as it is known.
  ///
  /// Touches move it.
  var current: Blob {
    let update = updateSeconds.load(ordering: .relaxed)
    guard update > blob.header.lastUpdate.seconds else { return blob }
    var header = blob.header
    header.updateTime = UInt64(clamping: update)
    return Blob(key: blob.key, payload: blob.payload, header: header, extendedData: blob.extendedData)
  }
}

/// When a record was used, as far as the disk knows and as memory knows. It outlives the blob in memory, so that a use
/// is not lost when the blob is evicted before the disk was told.
final class RecordUse: Sendable {
  let key: BlobKey
  /// Whether uses move the update time.
  let slides: Bool
  /// Seconds to live after the update time.
  private let lifetime: Int64
  private let updateTime: Atomic<Int64>
  private let lastUse: Atomic<Int64>
  /// When the disk could not be told.
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

  /// The last second in which the record is live, as far as the disk knows.
  var deadline: UnixTime { UnixTime(seconds: update).advanced(bySeconds: lifetime) }

  var update: Int64 { updateTime.load(ordering: .relaxed) }
  var latest: Int64 { lastUse.load(ordering: .sequentiallyConsistent) }

  /// - Returns: whether the disk knows of an earlier use only.
  func use(at now: Int64) -> Bool {
    guard slides, now > update else { return false }
    if latest < now { lastUse.max(now, ordering: .sequentiallyConsistent) }
    return true
  }

  /// Whether the latest use on disk is an interval old, and no write has failed since.
  func isOverdue(at now: Int64, interval: Int64) -> Bool {
    func isLongAgo(_ time: Int64) -> Bool { Int128(now) - Int128(time) >= Int128(interval) }
    let failure = lastFailure.load(ordering: .relaxed)
    // One that lies ahead is from before the clock was set back.
    return isLongAgo(update) && (failure > now || isLongAgo(failure))
  }

  /// Notes that a use could not be written to disk; it is not tried for an interval.
  ///
  /// That is so where the record has another link or is being changed.
  func wasNotTold(at now: Int64) { lastFailure.store(now, ordering: .relaxed) }

  /// - Returns: true for the first call since `settle`.
  func becomesNoted() -> Bool { Self.becomesTrue(isNoted) }

  func becomesDue() -> Bool { Self.becomesTrue(isDue) }

  private static func becomesTrue(_ flag: borrowing Atomic<Bool>) -> Bool {
    !flag.load(ordering: .sequentiallyConsistent) && !flag.exchange(true, ordering: .sequentiallyConsistent)
  }

  /// Notes that a use was written to disk, or could not be.
  ///
  /// A later use finds that it is not noted; or a look at `latest` after this finds the use. All of that has one order
  /// for all threads.
  ///
  /// - Parameter time: the update time on disk, as far as it is known: the deadline goes by nothing else.
  func settle(_ time: UnixTime?) {
    if let time { updateTime.store(max(time.seconds, update), ordering: .relaxed) }
    isNoted.store(false, ordering: .sequentiallyConsistent)
    isDue.store(false, ordering: .sequentiallyConsistent)
  }
}
