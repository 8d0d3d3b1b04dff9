internal import BlobRecord

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
