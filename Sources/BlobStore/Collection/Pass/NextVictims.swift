internal import BlobRecord
internal import Posix
internal import SystemPackage

/// A record that may have to go, as it was when it was met.
struct Victim {
  let path: RecordPath
  let lastUpdate: UnixTime
  let size: RecordSize
  /// As the header has it: the record has been stored or touched since, if this is another.
  private let updateTime: UInt64
  /// Two stores within a second have one update time, but not one file; nor is a header written without a trace.
  /// nil of a record whose header the walk has written itself.
  private let fileState: FileState?
  /// For two stores within a tick of the clock that stamps files, the second of which was given the first one's file again.
  private let checksum: UInt32?

  /// - Parameter time: what the record counts as last used at.
  init(_ path: RecordPath, _ header: RecordHeader, usedAt time: UnixTime, _ size: RecordSize, _ fileState: FileState?) {
    self.path = path
    lastUpdate = time
    self.size = size
    updateTime = header.updateTime
    checksum = header.payloadChecksum
    self.fileState = fileState
  }

  /// Whether the record is what it was.
  func isStill(_ current: RecordEntry) -> Bool {
    (fileState == nil || current.fileState == fileState) && current.fileSize == size.bytes
      && current.header.map { $0.updateTime == updateTime && $0.payloadChecksum == checksum } ?? false
  }
}

/// Which file it is, and when anything about it was last changed.
struct FileState: Hashable {
  private let inode: UInt64
  private let changeNanoseconds: Int64

  init(_ status: Stat) {
    inode = status.inodeNumber
    changeNanoseconds = status.changeNanoseconds
  }
}

/// The records that are next to go after those that a size pass removes, known from its walk, so that a steady stream of
/// stores does not walk the directory each time.
///
/// Whatever has happened to a record since is found out when it is removed. A record that was unlocked since the walk
/// is not among them, however old: the next walk finds it.
struct NextVictims {
  /// Some ten MiB of them.
  static let capacity = 65_536

  /// Newest first, once sealed.
  private var victims: [Victim] = []

  private var bytes: Int64 = 0
  /// Whether a look ahead has found no more than these, so that another one would be in vain.
  var areAll = false

  var isEmpty: Bool { victims.isEmpty }

  /// Whether they will not fill the recycling bin.
  func areFewer(thanFill portion: EvictionPortion) -> Bool {
    !areAll && portion.isLessThanBin(files: Int64(victims.count), bytes: bytes)
  }

  mutating func add(_ victim: Victim) {
    guard victims.count < Self.capacity else { return }
    victims.append(victim)
    bytes.saturatingAdd(victim.size.bytes)
  }

  /// Puts them in order.
  mutating func seal() {
    victims.sort { $0.lastUpdate > $1.lastUpdate }
  }

  /// The oldest.
  mutating func next() -> Victim? {
    let victim = victims.popLast()
    if let victim { bytes.saturatingAdd(-victim.size.bytes) }
    return victim
  }
}
