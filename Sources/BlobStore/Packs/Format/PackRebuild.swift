package import BlobRecord

/// Determines which record of each name is the newest in all chunks, and which have to be marked as dead.
///
/// The result does not depend on the order of the records.
package struct PackRebuild: Sendable {
  package struct Entry: Hashable, Sendable {
    package let nameDigest: UInt64
    package let address: PackAddress
    package let byteCount: Int
    /// The update time, which is the last known use of the record.
    package let lastUse: UnixTime
    fileprivate let sequence: UInt64
    /// A hash of the name with a secret of this process, because an attacker can construct names with equal digests.
    let nameHash: UInt64
  }

  /// The newest record of each name, in the order in which the names were added.
  package private(set) var entries: [Entry] = []
  private var table: PackRebuildTable
  /// The records not marked as dead that are superseded, have a damaged payload, or cannot be read.
  package private(set) var mustDie: [PackAddress] = []
  /// The highest sequence of all records, dead or not, or 0. The next issued sequence has to be higher.
  package private(set) var highestSequence: UInt64 = 0

  /// - Parameter count: The expected number of names. A higher number costs time.
  package init(expecting count: Int = 0) {
    entries.reserveCapacity(count)
    table = PackRebuildTable(holding: count)
  }

  package var count: Int { entries.count }

  /// Adds a record that a walk of its chunk has found, in O(*n*) for *n* bytes, because its payload is verified.
  package mutating func add(_ record: PackedRecord, isDead: Bool, in chunk: RawSpan) {
    highestSequence = max(highestSequence, record.header.sequence)
    guard !isDead else { return }
    guard record.hasSoundPayload(in: chunk) else { return mustDie.append(record.address) }
    let entry = Entry(
      nameDigest: record.nameDigest(in: chunk), address: record.address, byteCount: record.header.byteCount,
      lastUse: UnixTime(seconds: Int64(record.header.updateTime)), sequence: record.header.sequence,
      nameHash: Self.hash(of: chunk.extracting(record.nameRange)))
    guard let number = table.number(of: entry, among: entries) else { return entries.append(entry) }
    let rival = entries[number]
    if entry.isNewer(than: rival) { entries[number] = entry }
    mustDie.append(entry.isNewer(than: rival) ? rival.address : entry.address)
  }

  package mutating func lose(_ places: [PackAddress]) { mustDie += places }

  fileprivate static func hash(of name: RawSpan) -> UInt64 {
    var hasher = Hasher()
    unsafe name.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    return UInt64(bitPattern: Int64(hasher.finalize()))
  }
}

extension PackRebuild.Entry {
  package func isOfName(_ name: RawSpan) -> Bool { PackRebuild.hash(of: name) == nameHash }

  /// Returns whether this record is newer, by the same rule as for two records of a walk.
  package func isNewer(than rival: PackedHeader, at place: PackAddress) -> Bool {
    (sequence, address.rawValue) > (rival.sequence, place.rawValue)
  }

  /// The address breaks ties, because two records have the same sequence only if bytes were forged or copied.
  fileprivate func isNewer(than rival: Self) -> Bool {
    (sequence, address.rawValue) > (rival.sequence, rival.address.rawValue)
  }
}

/// Finds the entries of a rebuild by their names. The open-addressed table uses the hash that each entry already has,
/// whereas a dictionary would hash it again.
struct PackRebuildTable: Sendable {
  typealias Entry = PackRebuild.Entry

  /// The number of an entry plus 1, below the high bits of its hash, or 0 for an empty slot.
  private var slots: [UInt64]
  private var mask: UInt64

  /// The bits of an entry's number, which are enough for all records that the packs can contain.
  private static let numberMask: UInt64 = 1 << 40 - 1

  init(holding count: Int) {
    // At most half of the slots are used, so that searches are short.
    let slotCount = 1 << (Int.bitWidth - max(count, 8).leadingZeroBitCount + 1)
    slots = [UInt64](repeating: 0, count: slotCount)
    mask = UInt64(slotCount - 1)
  }

  /// Returns the number of the entry with the same name, or adds this entry as the next one and returns `nil`.
  mutating func number(of entry: Entry, among entries: [Entry]) -> Int? {
    if entries.count * 2 >= slots.count { grow(entries) }
    var place = entry.nameHash & mask
    while case let slot = slots[Int(place)], slot != 0 {
      let number = Int(slot & Self.numberMask) - 1
      if (slot ^ entry.nameHash) & ~Self.numberMask == 0, entries[number].isOfName(of: entry) { return number }
      place = (place + 1) & mask
    }
    slots[Int(place)] = Self.slot(of: entry, number: entries.count)
    return nil
  }

  private mutating func grow(_ entries: [Entry]) {
    self = Self(holding: entries.count * 2)
    for (number, entry) in entries.enumerated() {
      var place = entry.nameHash & mask
      while slots[Int(place)] != 0 { place = (place + 1) & mask }
      slots[Int(place)] = Self.slot(of: entry, number: number)
    }
  }

  private static func slot(of entry: Entry, number: Int) -> UInt64 {
    entry.nameHash & ~numberMask | UInt64(number + 1)
  }
}

extension PackRebuild.Entry {
  fileprivate func isOfName(of other: Self) -> Bool {
    nameDigest == other.nameDigest && nameHash == other.nameHash
  }
}
