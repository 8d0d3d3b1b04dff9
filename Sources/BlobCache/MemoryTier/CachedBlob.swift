internal import BlobRecord
internal import BlobStore
internal import Synchronization

/// A blob in memory, and what says whether it is still what the disk holds.
final class CachedBlob: Sendable {
  let blob: Blob
  /// Of the file name: finds the generation.
  let digest: UInt64
  /// The generation that was in force before the disk was read.
  let stamp: GenerationStamp
  let use: RecordUse

  init(blob: Blob, digest: UInt64, stamp: GenerationStamp, lifetime: Int64) {
    self.blob = blob
    self.digest = digest
    self.stamp = stamp
    use = RecordUse(header: blob.header, key: blob.key, lifetime: lifetime)
  }
}

extension CachedBlob {
  /// The blob, with the update time that the disk has as far as it is known.
  ///
  /// Touches move it.
  var current: Blob {
    let update = use.update
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
  /// Seconds to live after the update time.
  private let lifetime: Int64
  /// Whether uses move the update time.
  let slides: Bool
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
