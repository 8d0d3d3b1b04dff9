import Dispatch
import Measuring
import MemoryCache
import Synchronization

/// What two threads get through against one, on one cache: hits only.
struct ThroughputComparison {
  /// By the wall clock.
  let ratios: Quartiles
  /// By processor time, as if each thread had a processor to itself and never slept: the best measure on a machine that
  /// has other work.
  let processorRatios: Quartiles
  /// By the wall clock, two threads with a cache each and nothing in common: the most that the machine can give. Two
  /// processors may be one core.
  let machineRatios: Quartiles

  init(_ material: HitMaterial, shards: Int, rounds: Int) {
    let shared = filledCache(material.storedKeys, shards: shards)
    let other = filledCache(material.storedKeys, shards: shards)
    /// - Returns: seconds by the wall clock, and the processor time of a thread.
    func run(threads: Int, apart: Bool = false) -> (wall: Double, processor: Double) {
      let part = material.positions.count / 2
      let processor = Mutex(0.0)
      let duration = ContinuousClock().measure {
        DispatchQueue.concurrentPerform(iterations: threads) { index in
          let slice = material.positions[index * part..<(index + 1) * part]
          let cache = apart && index == 1 ? other : shared
          let time = ThreadTime.measure { precondition(sum(cache, material.keys, slice) > 0, "nothing was found") }
          processor.withLock { $0 += time / Double(threads) }
        }
      }
      let (seconds, attoseconds) = duration.components
      return (Double(seconds) + Double(attoseconds) / 1e18, processor.withLock { $0 })
    }
    _ = run(threads: 2)
    let runs = (0..<rounds).map { _ in
      (one: run(threads: 1), two: run(threads: 2), apart: run(threads: 2, apart: true))
    }
    ratios = Quartiles(of: runs.map { 2 * $0.one.wall / $0.two.wall })
    processorRatios = Quartiles(of: runs.map { 2 * $0.one.processor / $0.two.processor })
    machineRatios = Quartiles(of: runs.map { 2 * $0.one.wall / $0.apart.wall })
  }
}
