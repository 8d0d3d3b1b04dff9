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

  var isEmpty: Bool { victims.isEmpty }

  mutating func add(_ victim: Victim) {
    if victims.count < Self.capacity { victims.append(victim) }
  }

  /// Puts them in order.
  mutating func seal() {
    victims.sort { $0.lastUpdate > $1.lastUpdate }
  }

  /// The oldest.
  mutating func next() -> Victim? { victims.popLast() }
}
