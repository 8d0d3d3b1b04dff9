/// The files of one size class in the recycling bin, by what they have held last.
///
/// A record takes the file whose digest is the next below its own, or nearly: so files get through as many records as
/// there are files here, on average, before their digest is above those of most keys.
struct RecyclingShelf {
  typealias Entry = RecyclingBin.Entry

  /// Files whose digests have the same first bits, the last to come at the end: its bytes are still in the processor's caches.
  /// None at all until the first file comes.
  private var stacks: [[Entry]] = []
  /// Which of them are not empty: a bit each.
  private var occupied: UInt64 = 0
  /// Files that nobody has looked at.
  private var unread: [Entry] = []

  private static let stackCount = 64
  /// How many files of the record's own stack are looked at.
  private static let depth = 8

  private static func stack(of digest: UInt64) -> Int { Int(digest >> 58) }

  /// In no order.
  var entries: some Sequence<Entry> { ([unread] + stacks).lazy.joined() }

  mutating func push(_ entry: Entry) {
    guard let dead = entry.dead else { return unread.append(entry) }
    if stacks.isEmpty { stacks = [[Entry]](repeating: [], count: Self.stackCount) }
    let number = Self.stack(of: dead.keyDigest)
    stacks[number].append(entry)
    occupied |= 1 << UInt64(number)
  }

  /// A file that a record with this digest may overwrite, as far as is known.
  mutating func pop(for digest: UInt64, at moment: RecyclingMoment) -> Entry? {
    popSameStack(digest, at: moment) ?? popLowerStack(digest) ?? unread.popLast()
  }

  /// The file that the fewest records could overwrite, or nearly, if its digest is above this one.
  mutating func popHighest(above digest: UInt64) -> Entry? {
    guard occupied != 0 else { return nil }
    let highest = 63 - occupied.leadingZeroBitCount
    guard let last = stacks[highest].last?.dead, last.keyDigest > digest else { return nil }
    return popLast(of: highest)
  }

  private mutating func popSameStack(_ digest: UInt64, at moment: RecyclingMoment) -> Entry? {
    let number = Self.stack(of: digest)
    guard occupied & 1 << UInt64(number) != 0 else { return nil }
    let last = stacks[number].count - 1
    for index in stride(from: last, through: max(0, last - Self.depth + 1), by: -1)
    where stacks[number][index].dead?.mayPrecede(digest, at: moment) == true {
      stacks[number].swapAt(index, last)
      return popLast(of: number)
    }
    return nil
  }

  private mutating func popLowerStack(_ digest: UInt64) -> Entry? {
    let lower = occupied & (1 << UInt64(Self.stack(of: digest)) - 1)
    return lower == 0 ? nil : popLast(of: 63 - lower.leadingZeroBitCount)
  }

  private mutating func popLast(of number: Int) -> Entry? {
    let entry = stacks[number].popLast()
    if stacks[number].isEmpty { occupied &= ~(1 << UInt64(number)) }
    return entry
  }
}
