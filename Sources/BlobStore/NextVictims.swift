internal import BlobRecord

/// A record that may have to go, as it was when it was met.
struct Victim {
  let path: RecordPath
  let lastUpdate: UnixTime
  let size: RecordSize
  /// As the header has it: the record has been stored or touched since, if this is another.
  let updateTime: UInt64
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
