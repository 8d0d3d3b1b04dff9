internal import BlobRecord

/// Which chunks of the packs a pass empties, and how much of what is in them may go: Spec/Eviction.md.
///
/// A value that decides from sums. The pass measures the order of records, sums what stays of each chunk at each level, asks
/// for the plan, and moves or evicts the records of the chunks that it names.
package struct PackEvictionPlan: Sendable {
  /// At each level a greater share of the live bytes goes; at level 0 nothing does.
  package static let levelCount = 9

  /// What is there, and what has to be reached.
  package struct Demand: Sendable {
    package var liveByteCount: Int64
    /// Of live bytes.
    package var limitByteCount: Int64
    package var chunkByteCount: Int64
    package var freeChunkCount: Int
    /// How many chunks are to be free.
    package var wantedChunkCount: Int

    package init(
      liveByteCount: Int64, limitByteCount: Int64, chunkByteCount: Int64, freeChunkCount: Int, wantedChunkCount: Int
    ) {
      self.liveByteCount = liveByteCount
      self.limitByteCount = limitByteCount
      self.chunkByteCount = chunkByteCount
      self.freeChunkCount = freeChunkCount
      self.wantedChunkCount = wantedChunkCount
    }

    /// - Parameter leftByteCount: the live bytes that may be left.
    package init(liveByteCount: Int64, leftByteCount: Int64, chunkByteCount: Int64, wantedChunkCount: Int) {
      let isMet = leftByteCount >= liveByteCount
      self.init(
        liveByteCount: liveByteCount, limitByteCount: isMet ? .max : Int64(Double(leftByteCount) / Self.leftShare),
        chunkByteCount: chunkByteCount, freeChunkCount: 0, wantedChunkCount: wantedChunkCount)
    }

    /// The share of the limit that an eviction leaves.
    private static let leftShare = 0.98

    /// The share of the live bytes that may go at a level, the first in the order.
    ///
    /// - Parameter level: 0 to 8.
    package func share(atLevel level: Int) -> Double {
      greatestShare * Double(level) / Double(PackEvictionPlan.levelCount - 1)
    }

    /// Nothing goes below 0.85 of the limit.
    fileprivate var greatestShare: Double {
      guard limitByteCount > 0 else { return 0.8 }
      let fullness = (Double(liveByteCount) / Double(limitByteCount) - 0.85) / 0.13
      return 0.8 * min(max(fullness, 0), 1)
    }

    /// Live bytes that are too many.
    fileprivate var excess: Int64 { liveByteCount - Int64(Self.leftShare * Double(limitByteCount)) }
  }

  /// What a pass knows of a sealed chunk.
  package struct Chunk: Sendable {
    package var number: Int
    package var liveByteCount: Int64
    /// The live bytes that stay at each level; lanes 0 to 8 count.
    package var stayingByteCounts: SIMD16<UInt32>
    /// How many chunks were opened since this one.
    package var age: Int
    /// Whether all of its records have expired.
    package var isOver: Bool

    package init(number: Int, liveByteCount: Int64, stayingByteCounts: SIMD16<UInt32>, age: Int, isOver: Bool) {
      self.number = number
      self.liveByteCount = liveByteCount
      self.stayingByteCounts = stayingByteCounts
      self.age = age
      self.isOver = isOver
    }
  }

  /// The numbers of chunks in which nothing stays.
  package let whole: [Int]
  /// The numbers of chunks to empty, in this order.
  package let emptied: [Int]
  /// Records before this level's place in the order go, the others move.
  package let level: Int

  /// How much may be moved for the room that it brings: the write amplification is 1 more.
  private static let greatestPrice = 0.35

  /// - Complexity: O(*n* log *n*) for *n* chunks.
  package init(_ chunks: [Chunk], _ demand: Demand) {
    let whole = chunks.filter { $0.liveByteCount <= 0 || $0.isOver }
    let others = chunks.filter { $0.liveByteCount > 0 && !$0.isOver }
    var demand = demand
    demand.freeChunkCount += whole.count
    self.whole = whole.map(\.number)
    // What has expired is no longer live.
    let excess = demand.excess - whole.reduce(0) { $0 + $1.liveByteCount }
    var chosen = Choice(others, demand, excess: excess, level: 0)
    var level = 0
    while !chosen.suffices(for: excess), demand.greatestShare > 0, level < Self.levelCount - 1 {
      level += 1
      chosen = Choice(others, demand, excess: excess, level: level)
    }
    self.level = level
    emptied = chosen.numbers
  }

  /// The chunks of one level.
  private struct Choice {
    var numbers: [Int] = []
    private var stays: Int64 = 0
    private var goes: Int64 = 0
    private var room: Int64 = 0

    init(_ chunks: [Chunk], _ demand: Demand, excess: Int64, level: Int) {
      let wanted = Int64(demand.wantedChunkCount - demand.freeChunkCount) * demand.chunkByteCount
      guard wanted > 0 || excess > 0 else { return }
      let candidates = chunks.lazy
        .map { (chunk: $0, staying: Int64($0.stayingByteCounts[level]), score: 0.0) }
        .filter { $0.staying < demand.chunkByteCount }
        .map { candidate in
          let room = Double(demand.chunkByteCount - candidate.staying)
          let age = Double(max(candidate.chunk.age, 1)).squareRoot()
          return (candidate.chunk, candidate.staying, Double(candidate.staying) / (room * age))
        }
        // By number, too: the order of the input does not matter.
        .sorted { ($0.2, $0.0.number) < ($1.2, $1.0.number) }
      for (chunk, staying, _) in candidates where room < wanted || goes < excess {
        numbers.append(chunk.number)
        stays += staying
        goes += chunk.liveByteCount - staying
        room += demand.chunkByteCount - staying
      }
    }

    /// Whether enough goes at a price that is not too high.
    func suffices(for excess: Int64) -> Bool {
      goes >= excess && Double(stays) <= PackEvictionPlan.greatestPrice * Double(room)
    }
  }
}

/// How many bytes of each chunk stand where in the order of eviction, in bounded memory: some hundred numbers a chunk.
///
/// A walk adds the records that may go. Then it is known, for each share of them, which are the first of that share, and how
/// much of each chunk they take.
struct ChunkStandings {
  /// Bytes that the records take in chunks, and as files.
  private(set) var byteCount: Int64 = 0
  private(set) var logicalByteCount: Int64 = 0
  /// By chunk and by step.
  private var chunks: [PackAddress: [EvictionStep: Int64]] = [:]
  private var sums: [EvictionStep: Int64] = [:]

  /// The chunks in which such records lie.
  var chunkCount: Int { chunks.count }

  /// - Parameter logical: the bytes of the record as a file.
  mutating func add(_ entry: IndexEntry, at step: EvictionStep, logical: Int64) {
    let bytes = Int64(entry.byteCount)
    byteCount += bytes
    logicalByteCount.saturatingAdd(logical)
    sums[step, default: 0] += bytes
    chunks[entry.address.chunkStart, default: [:]][step, default: 0] += bytes
  }

  /// The last steps of the records that are the first so many bytes, for each of ascending numbers.
  ///
  /// A step is not divided. So it may be a little more, but never nothing where something is asked for.
  func lastSteps(of byteCounts: [Int64]) -> [EvictionStep?] {
    let steps = sums.sorted { $0.key < $1.key }
    var (next, sum) = (0, Int64(0))
    return byteCounts.map { wanted in
      while next < steps.count, sum < wanted {
        sum += steps[next].value
        next += 1
      }
      return next == 0 ? nil : steps[next - 1].key
    }
  }

  /// The bytes of a chunk that stand no later than each of ascending steps; 0 for nil.
  func byteCounts(of chunk: PackAddress, upTo steps: [EvictionStep?]) -> [Int64] {
    let found = chunks[chunk.chunkStart, default: [:]]
    return steps.map { last in
      guard let last else { return 0 }
      return found.reduce(0) { $1.key <= last ? $0 + $1.value : $0 }
    }
  }
}

/// A coarse place in the order of eviction, eight to each doubling of a record's distance. The lower goes first.
struct EvictionStep: Hashable, Comparable, Sendable {
  private let number: Int32

  /// - Parameter distance: how far back a record stands, above 0.
  init(distance: Double) {
    // The bits of positive numbers are in their order: these are the exponent and three bits of the fraction.
    number = -Int32(truncatingIfNeeded: distance.bitPattern >> 49)
  }

  static func < (a: EvictionStep, b: EvictionStep) -> Bool { a.number < b.number }
}
