package import BlobRecord

/// Makes an index anew from the records of all chunks: which of them is the newest of its name, and which must be dead.
///
/// What it is given in which order makes no difference.
package struct PackRebuild: Sendable {
  /// What the index has to hold for one name.
  package struct Entry: Hashable, Sendable {
    package let nameDigest: UInt64
    package let address: PackAddress
    /// What the record takes in its chunk.
    package let byteCount: Int
    /// Its update, which is the last use that is known of it.
    package let lastUse: UnixTime
    fileprivate let sequence: UInt64
    /// Of the name, by a secret of this process: strangers can make names of one digest, and not of one such hash.
    let nameHash: UInt64
  }

  /// The newest record of each name, in the order in which the names came.
  package private(set) var entries: [Entry] = []
  private var table: PackRebuildTable
  /// Records that a newer one of the same name replaces, whose payload is damaged, or that cannot be read, and that no bit says are
  /// dead.
  package private(set) var mustDie: [PackAddress] = []
  /// The highest sequence of all records, dead or not; the next one that is given must be above. 0 without any.
  package private(set) var highestSequence: UInt64 = 0

  /// - Parameter count: how many names are expected. More cost time.
  package init(expecting count: Int = 0) {
    entries.reserveCapacity(count)
    table = PackRebuildTable(holding: count)
  }

  package var count: Int { entries.count }

  /// Takes account of a record.
  ///
  /// - Parameters:
  ///   - record: found by a walk of its chunk.
  ///   - isDead: whether its bit says so.
  ///   - chunk: the bytes of its chunk.
  /// - Complexity: O(*n*) for a record of *n* bytes, whose payload is compared with its checksum.
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

  /// Takes account of records that cannot be read.
  ///
  /// - Parameter places: at which they may begin.
  package mutating func lose(_ places: [PackAddress]) { mustDie += places }

  fileprivate static func hash(of name: RawSpan) -> UInt64 {
    var hasher = Hasher()
    unsafe name.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
    return UInt64(bitPattern: Int64(hasher.finalize()))
  }
}

extension PackRebuild.Entry {
  /// Whether a record has this one's name.
  package func isOfName(_ name: RawSpan) -> Bool { PackRebuild.hash(of: name) == nameHash }

  /// As for two of a walk.
  package func isNewer(than rival: PackedHeader, at place: PackAddress) -> Bool {
    (sequence, address.rawValue) > (rival.sequence, place.rawValue)
  }

  /// No two records have one sequence unless bytes were forged or copied; then the address decides.
  fileprivate func isNewer(than rival: Self) -> Bool {
    (sequence, address.rawValue) > (rival.sequence, rival.address.rawValue)
  }
}

/// Finds the entries of a rebuild by their names.
///
/// It is an open-addressed table by the hash that each entry has: a dictionary would hash that once more.
struct PackRebuildTable: Sendable {
  typealias Entry = PackRebuild.Entry

  /// The number of an entry plus 1, below the high bits of its hash; 0 for none.
  private var slots: [UInt64]
  private var mask: UInt64

  /// Packs have room for fewer records than these bits can count.
  private static let numberMask: UInt64 = 1 << 40 - 1

  init(holding count: Int) {
    // At most half of the slots get used, so that a search ends soon.
    let slotCount = 1 << (Int.bitWidth - max(count, 8).leadingZeroBitCount + 1)
    slots = [UInt64](repeating: 0, count: slotCount)
    mask = UInt64(slotCount - 1)
  }

  /// Finds the entry of the same name, or adds this one as the next.
  ///
  /// - Parameter entries: those that were added, in their order.
  /// - Returns: the number of the entry; nil if this one was added.
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
