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
