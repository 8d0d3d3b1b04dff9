internal import BlobRecord
internal import Posix

/// The files of one size class in the recycling bin, ordered by their last records.
///
/// A record takes the file with the next lower digest, or nearly. On average, a file is therefore reused as many
/// times as the shelf has files, before its digest exceeds the digests of most keys.
struct RecyclingShelf {
  typealias Entry = RecyclingBin.Entry

  /// A stack for each value of the digests' first bits. The last file is the most recent one, whose bytes are still in
  /// the processor's caches. Empty until the first file is added.
  private var stacks: [[Entry]] = []
  /// A bit for each stack that is not empty.
  private var occupied: UInt64 = 0
  /// The files whose headers this process has not read.
  private var unread: [Entry] = []

  private static let stackCount = 64
  private static let depth = 8

  private static func stack(of digest: UInt64) -> Int { Int(digest >> 58) }

  var entries: some Sequence<Entry> { ([unread] + stacks).lazy.joined() }

  mutating func push(_ entry: Entry) {
    guard let dead = entry.dead else { return unread.append(entry) }
    if stacks.isEmpty { stacks = [[Entry]](repeating: [], count: Self.stackCount) }
    let number = Self.stack(of: dead.keyDigest)
    stacks[number].append(entry)
    occupied |= 1 << UInt64(number)
  }

  /// Removes and returns a file that a record may overwrite, as far as is known.
  mutating func pop(for path: RecordPath, at moment: RecyclingMoment) -> Entry? {
    popSameStack(path, at: moment) ?? popLowerStack(path.digest) ?? unread.popLast()
  }

  /// Removes and returns a file that about the fewest records could overwrite, if its digest exceeds another one.
  mutating func popHighest(above digest: UInt64) -> Entry? {
    guard occupied != 0 else { return nil }
    return popHighest(of: 63 - occupied.leadingZeroBitCount) { $0.keyDigest > digest }
  }

  private mutating func popSameStack(_ path: RecordPath, at moment: RecyclingMoment) -> Entry? {
    let number = Self.stack(of: path.digest)
    guard occupied & 1 << UInt64(number) != 0 else { return nil }
    return popHighest(of: number) { $0.mayPrecede(path, at: moment) }
  }

  private mutating func popLowerStack(_ digest: UInt64) -> Entry? {
    let lower = occupied & (1 << UInt64(Self.stack(of: digest)) - 1)
    guard lower != 0 else { return nil }
    return popHighest(of: 63 - lower.leadingZeroBitCount) { _ in true }
  }

  /// Removes and returns the file with the highest digest that is wanted, among the most recent files of a stack. The
  /// less a file's digest increases, the more often the file can be reused.
  private mutating func popHighest(of number: Int, where isWanted: (DeadRecord) -> Bool) -> Entry? {
    let last = stacks[number].count - 1
    var highest: (index: Int, digest: UInt64)?
    for index in max(0, last - Self.depth + 1)...last {
      if let dead = stacks[number][index].dead, isWanted(dead), dead.keyDigest >= highest?.digest ?? 0 {
        highest = (index, dead.keyDigest)
      }
    }
    guard let highest else { return nil }
    stacks[number].swapAt(highest.index, last)
    let entry = stacks[number].popLast()
    if last == 0 { occupied &= ~(1 << UInt64(number)) }
    return entry
  }
}

#if DEBUG
  extension RecyclingShelf {
    /// Traps if an invariant is violated. For tests; O(*n*).
    func checkInvariants(of sizeClass: Int) {
      precondition(stacks.isEmpty || stacks.count == Self.stackCount, "a shelf has all stacks or none")
      for (number, stack) in stacks.enumerated() {
        precondition(stack.isEmpty == (occupied & 1 << UInt64(number) == 0), "stack \(number)'s bit is wrong")
        for entry in stack {
          precondition(entry.dead.map { Self.stack(of: $0.keyDigest) } == number, "a file lies in a wrong stack")
        }
      }
      precondition(!stacks.isEmpty || occupied == 0, "bits are set for stacks that are not there")
      precondition(unread.allSatisfy { $0.dead == nil }, "a known file lies among the unread")
      precondition(
        entries.allSatisfy { SizeClass($0.byteCount).number == sizeClass }, "a file lies on the shelf of another size")
    }
  }
#endif

struct RecyclingLimit: Sendable {
  /// The maximum size of all files, including headers.
  let bytes: Int64
  let files: Int64

  /// Returns `nil` if recycling is disabled.
  init?(_ configuration: BlobStore.Configuration) {
    guard WriteLease.isAvailable else { return nil }
    switch configuration.recycling {
    case .off: return nil
    case .automatic:
      bytes =
        configuration.limits.size.map { limit in
          // At most what a collection leaves free below the limit, which applies to the bin and all records.
          min(max(limit / 100, 16 << 20), limit / 10, limit - limit.share(configuration.limits.evictionTarget))
        } ?? 16 << 20
      files = 4096
    case .bounded(let bytes, let files):
      self.bytes = bytes
      self.files = files
    }
    guard bytes > 0, files > 0 else { return nil }
  }
}
