internal import BlobRecord

/// The chunks of the packs that a pass empties, and the share of their records that it evicts: Spec/Eviction.md.
///
/// The plan is computed from sums. The pass measures the eviction order, sums the remaining bytes of each chunk at
/// each level, requests the plan, and moves or evicts the records of the selected chunks.
package struct PackEvictionPlan: Sendable {
  /// The number of levels. Each level evicts a greater share of the live bytes than the one before, and level 0 none.
  package static let levelCount = 9

  package struct Demand: Sendable {
    package var liveByteCount: Int64
    package var limitByteCount: Int64
    package var chunkByteCount: Int64
    package var freeChunkCount: Int
    /// The number of chunks that should be free after the pass.
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

    package init(liveByteCount: Int64, leftByteCount: Int64, chunkByteCount: Int64, wantedChunkCount: Int) {
      let isMet = leftByteCount >= liveByteCount
      self.init(
        liveByteCount: liveByteCount, limitByteCount: isMet ? .max : Int64(Double(leftByteCount) / Self.leftShare),
        chunkByteCount: chunkByteCount, freeChunkCount: 0, wantedChunkCount: wantedChunkCount)
    }

    /// The share of the limit that remains after an eviction.
    private static let leftShare = 0.98

    /// Returns the share of the live bytes that may be evicted at a level (0 to 8), in eviction order.
    package func share(atLevel level: Int) -> Double {
      greatestShare * Double(level) / Double(PackEvictionPlan.levelCount - 1)
    }

    /// The share at the highest level: 0 while the live bytes are at most 0.85 of the limit, and 0.8 from 0.98 on.
    fileprivate var greatestShare: Double {
      guard limitByteCount > 0 else { return 0.8 }
      let fullness = (Double(liveByteCount) / Double(limitByteCount) - 0.85) / 0.13
      return 0.8 * min(max(fullness, 0), 1)
    }

    fileprivate var excess: Int64 { liveByteCount - Int64(Self.leftShare * Double(limitByteCount)) }
  }

  /// The facts about a sealed chunk that the plan depends on.
  package struct Chunk: Sendable {
    package var number: Int
    package var liveByteCount: Int64
    /// The live bytes that remain at each level, in lanes 0 to 8.
    package var stayingByteCounts: SIMD16<UInt32>
    /// The number of chunks that were opened since this one.
    package var age: Int
    /// A Boolean value that indicates whether all records of the chunk have expired.
    package var isOver: Bool

    package init(number: Int, liveByteCount: Int64, stayingByteCounts: SIMD16<UInt32>, age: Int, isOver: Bool) {
      self.number = number
      self.liveByteCount = liveByteCount
      self.stayingByteCounts = stayingByteCounts
      self.age = age
      self.isOver = isOver
    }
  }

  /// The numbers of the chunks that can be freed without moving a record.
  package let whole: [Int]
  /// The numbers of the chunks to empty, in this order.
  package let emptied: [Int]
  /// The level whose share of the eviction order is evicted, while other records are moved.
  package let level: Int

  /// The maximum ratio of moved bytes to freed bytes. The write amplification is 1 higher.
  private static let greatestPrice = 0.35

  /// - Complexity: O(*n* log *n*) for *n* chunks.
  package init(_ chunks: [Chunk], _ demand: Demand) {
    let whole = chunks.filter { $0.liveByteCount <= 0 || $0.isOver }
    let others = chunks.filter { $0.liveByteCount > 0 && !$0.isOver }
    var demand = demand
    demand.freeChunkCount += whole.count
    self.whole = whole.map(\.number)
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
        // The number breaks ties, so that the order of the input does not matter.
        .sorted { ($0.2, $0.0.number) < ($1.2, $1.0.number) }
      for (chunk, staying, _) in candidates where room < wanted || goes < excess {
        numbers.append(chunk.number)
        stays += staying
        goes += chunk.liveByteCount - staying
        room += demand.chunkByteCount - staying
      }
    }

    func suffices(for excess: Int64) -> Bool {
      goes >= excess && Double(stays) <= PackEvictionPlan.greatestPrice * Double(room)
    }
  }
}

/// The bytes of each chunk at each step of the eviction order, in bounded memory: a few hundred numbers per chunk.
///
/// A walk adds the records that may be evicted. The sums then give the last step of any share of the records, and the
/// bytes that this share has in each chunk.
struct ChunkStandings {
  /// The bytes of the records in chunks, and as files.
  private(set) var byteCount: Int64 = 0
  private(set) var logicalByteCount: Int64 = 0
  private var chunks: [PackAddress: [EvictionStep: Int64]] = [:]
  private var sums: [EvictionStep: Int64] = [:]

  var chunkCount: Int { chunks.count }

  /// - Parameter logical: The size of the record as a file.
  mutating func add(_ entry: IndexEntry, at step: EvictionStep, logical: Int64) {
    let bytes = Int64(entry.byteCount)
    byteCount += bytes
    logicalByteCount.saturatingAdd(logical)
    sums[step, default: 0] += bytes
    chunks[entry.address.chunkStart, default: [:]][step, default: 0] += bytes
  }

  /// Returns the last step that is needed to evict a number of bytes, for each of several ascending numbers. Steps are
  /// not divided, so a result may exceed its number. It is `nil` only for 0 bytes or without records.
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

  /// Returns the bytes of a chunk up to and including each of several ascending steps, or 0 for `nil`.
  func byteCounts(of chunk: PackAddress, upTo steps: [EvictionStep?]) -> [Int64] {
    let found = chunks[chunk.chunkStart, default: [:]]
    return steps.map { last in
      guard let last else { return 0 }
      return found.reduce(0) { $1.key <= last ? $0 + $1.value : $0 }
    }
  }
}

/// A step of the eviction order, with eight steps per doubling of a record's distance. Lower steps are evicted first.
struct EvictionStep: Hashable, Comparable, Sendable {
  private let number: Int32

  init(distance: Double) {
    // Bit patterns of positive numbers are ordered. These are the exponent and three bits of the fraction.
    number = -Int32(truncatingIfNeeded: distance.bitPattern >> 49)
  }

  static func < (a: EvictionStep, b: EvictionStep) -> Bool { a.number < b.number }
}
