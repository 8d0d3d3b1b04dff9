import Dispatch
import Measuring
import MemoryCache
import Synchronization

/// The throughput of two threads relative to one thread, on one cache with hits only.
struct ThroughputComparison {
  /// The ratios by wall-clock time.
  let ratios: Quartiles
  /// The ratios by processor time, as if each thread had a dedicated processor and never slept. This is the best
  /// measure on a machine with other load.
  let processorRatios: Quartiles
  /// The ratios by wall-clock time for two threads with a separate cache each, which is the machine's maximum. Two
  /// processors may share a core.
  let machineRatios: Quartiles

  init(_ material: HitMaterial, shards: Int, rounds: Int) {
    let shared = filledCache(material.storedKeys, shards: shards)
    let other = filledCache(material.storedKeys, shards: shards)
    /// - Returns: The wall-clock time in seconds, and the processor time of a thread.
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
