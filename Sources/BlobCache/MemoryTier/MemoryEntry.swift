internal import BlobRecord
internal import BlobStore
internal import Synchronization

/// A blob in memory, without its key.
struct KeptBlob: Sendable {
  let entry: MemoryEntry
  let payload: Data

  /// Returns the blob with the latest known update time of the disk, which touches change.
  func current(_ key: BlobKey) -> Blob {
    Blob(
      key: key, payload: payload, header: entry.header(payloadSize: payload.count), extendedData: entry.extendedData)
  }
}

/// The state of a record: the data to check whether its blob in memory is still valid, and the latest uses that are
/// known on disk and in memory.
///
/// It outlives the blob in memory, so that an eviction does not lose a use that is not on disk yet. Therefore the
/// payload is not part of it. It has 87 bytes, and malloc's next larger block after 88 has 104.
final class MemoryEntry: Sendable {
  let digest: UInt64
  /// The generation that was current before the disk was read.
  let stamp: GenerationStamp
  /// The location of the generations, or `nil` if the blob is not kept in memory.
  private let place: GenerationPlace?
  private let updateTime: Atomic<Int64>
  private let lastUse: Atomic<Int64>
  private let lastFailure = Atomic(Int64.min)
  /// What `fields` does not contain, or `nil` for most records, which have nothing else.
  let whole: WholeHeader?
  private let fields: HeaderFields
  private let noted = Atomic(false)
  private let due = Atomic(false)

  init(_ blob: Blob, digest: UInt64, stamp: GenerationStamp, place: GenerationPlace?) {
    let update = blob.header.lastUpdate.seconds
    self.digest = digest
    self.stamp = stamp
    self.place = place
    fields = HeaderFields(blob.header)
    updateTime = Atomic(update)
    lastUse = Atomic(update)
    let plain = fields.header(updateTime: update, payloadSize: blob.payload.count, digest: digest)
    whole = plain == blob.header && blob.extendedData == nil ? nil : WholeHeader(blob)
  }
}

extension MemoryEntry {
  /// Counts the load and returns `true` if the entry is known to be valid without system calls.
  func answersAtOnce(_ hit: MemoryHit) -> Bool {
    place?.answersAtOnce(hit, ofDigest: digest, in: stamp.shared) ?? false
  }

  /// Returns the last second in which the record is live, as far as the state of the disk is known.
  func deadline(defaultExpiration: Int64) -> UnixTime {
    UnixTime(seconds: update).advanced(bySeconds: slides ? defaultExpiration : Int64(clamping: fields.ttl))
  }

  func header(payloadSize: Int) -> RecordHeader {
    let update = update
    guard var header = whole?.header else {
      return fields.header(updateTime: update, payloadSize: payloadSize, digest: digest)
    }
    if update > header.lastUpdate.seconds { header.updateTime = UInt64(clamping: update) }
    return header
  }

  var extendedData: Data? { whole?.extendedData }
}

// MARK: - Uses

extension MemoryEntry {
  /// A Boolean value that indicates whether uses change the update time.
  var slides: Bool { fields.ttl == 0 }

  var update: Int64 { updateTime.load(ordering: .relaxed) }
  var latest: Int64 { lastUse.load(ordering: .sequentiallyConsistent) }

  /// Returns whether a use has to be recorded, because the disk is behind, and it is the first use in a second.
  ///
  /// A record that is in no list of `TouchBatch` has to be listed again after a failed write.
  func lacksUse(at now: Int64) -> Bool { slides && now > update && (latest != now || !(isNoted || isDue)) }

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

  var isNoted: Bool { noted.load(ordering: .sequentiallyConsistent) }
  var isDue: Bool { due.load(ordering: .sequentiallyConsistent) }

  /// Returns `true` for the first call since `settle`, after which the caller lists the record.
  ///
  /// The caller holds the lock of the list, so that a thread that finds the flag set also finds the record in the list.
  func becomesNoted() -> Bool { !noted.exchange(true, ordering: .sequentiallyConsistent) }

  func becomesDue() -> Bool { !due.exchange(true, ordering: .sequentiallyConsistent) }

  /// Records that a use was written to disk, or could not be.
  ///
  /// A concurrent later use either finds the flags cleared, or is found by a read of `latest` after this call,
  /// because these operations are sequentially consistent.
  ///
  /// - Parameter time: The update time on disk if it is known; the deadline depends only on known times.
  func settle(_ time: UnixTime?) {
    if let time { updateTime.max(time.seconds, ordering: .relaxed) }
    noted.store(false, ordering: .sequentiallyConsistent)
    due.store(false, ordering: .sequentiallyConsistent)
  }
}

// MARK: - Headers

/// The fields of a header that follow neither from the blob nor from its entry, if the record has no lock, no extended
/// data and no reserved fields.
private struct HeaderFields {
  let ttl: UInt64
  private let checksum: UInt32
  private let flags: UInt8

  init(_ header: RecordHeader) {
    ttl = header.ttl
    checksum = header.reserved3
    flags = UInt8(truncatingIfNeeded: header.flags.rawValue)
  }

  func header(updateTime: Int64, payloadSize: Int, digest: UInt64) -> RecordHeader {
    let flags = RecordFlags(rawValue: UInt32(flags))
    return RecordHeader(
      ttl: ttl, updateTime: UInt64(clamping: updateTime), payloadSize: UInt64(payloadSize), flags: flags,
      reserved2: flags.contains(.keyDigest) ? digest : 0, reserved3: checksum)
  }
}

/// The header of a blob with other fields, and the extended data.
final class WholeHeader: Sendable {
  let header: RecordHeader
  let extendedData: Data?

  init(_ blob: Blob) {
    header = blob.header
    extendedData = blob.extendedData
  }
}
