import BlobCache
import Foundation
import MemoryCache
import Synchronization

/// A baseline with the minimum work of a memory hit: the lookup, the clock, the generation check, and the counters.
///
/// Unlike `BlobCache.load`, it has no staging, touches, metrics, or directory checks.
final class LeastCache: Sendable {
  struct Answer: Sendable {
    let key: BlobKey
    let payload: Data
    let header: RecordHeader
  }

  private final class Entry: Sendable {
    let place: Int
    let generation: UInt32
    let deadline: Int
    let answer: Answer

    init(place: Int, generation: UInt32, deadline: Int, answer: Answer) {
      self.place = place
      self.generation = generation
      self.deadline = deadline
      self.answer = answer
    }
  }

  /// The number of generations of a cache directory.
  private static let generationCount = 1 << 20

  private let memory = MemoryCache<BlobKey, Entry>(.withoutPressure)
  nonisolated(unsafe) private let generations = UnsafeMutablePointer<Atomic<UInt32>>.allocate(
    capacity: LeastCache.generationCount)
  private let hitCount = Atomic(0)
  private let byteCount = Atomic(0)

  init() {
    for place in 0..<Self.generationCount { (generations + place).initialize(to: Atomic(0)) }
  }

  deinit { generations.deallocate() }

  func set(_ payload: Data, for key: BlobKey) {
    let answer = Answer(
      key: key, payload: payload, header: RecordHeader(updateTime: 0, payloadSize: UInt64(payload.count)))
    let entry = Entry(
      place: key.hashValue & (Self.generationCount - 1), generation: 0, deadline: time(nil) + 100_000, answer: answer)
    memory.setValue(entry, forKey: key, cost: payload.count)
  }

  func load(_ key: BlobKey) async throws -> Answer? {
    guard let entry = memory.value(forKey: key), time(nil) <= entry.deadline,
      generations[entry.place].load(ordering: .acquiring) == entry.generation
    else { return nil }
    hitCount.wrappingAdd(1, ordering: .relaxed)
    byteCount.wrappingAdd(entry.answer.payload.count, ordering: .relaxed)
    return entry.answer
  }
}

extension MemoryCacheConfiguration {
  /// Memory pressure of other programs must not turn a hit into a miss.
  static var withoutPressure: MemoryCacheConfiguration {
    var configuration = MemoryCacheConfiguration()
    configuration.respondsToMemoryPressure = false
    return configuration
  }
}
