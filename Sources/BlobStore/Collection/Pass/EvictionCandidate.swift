internal import BlobRecord
internal import Posix

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
