import Dispatch
import Measuring
import MemoryCache
import Synchronization

/// What two threads get through against one, on one cache: hits only.
struct ThroughputComparison {
  /// By the wall clock.
  let ratios: Quartiles
  /// By processor time, as if each thread had a processor to itself and nobody ever slept: what is left on a machine
  /// that has other work.
  let processorRatios: Quartiles

  init(_ material: HitMaterial, shards: Int, rounds: Int) {
    let cache = filledCache(material.storedKeys, shards: shards)
    /// - Returns: seconds by the wall clock, and the processor time of a thread.
    func run(threads: Int) -> (wall: Double, processor: Double) {
      let part = material.positions.count / 2
      let processor = Mutex(0.0)
      let duration = ContinuousClock().measure {
        DispatchQueue.concurrentPerform(iterations: threads) { index in
          let slice = material.positions[index * part..<(index + 1) * part]
          let time = ThreadTime.measure { precondition(sum(cache, material.keys, slice) > 0, "nothing was found") }
          processor.withLock { $0 += time / Double(threads) }
        }
      }
      let (seconds, attoseconds) = duration.components
      return (Double(seconds) + Double(attoseconds) / 1e18, processor.withLock { $0 })
    }
    _ = run(threads: 2)
    let pairs = (0..<rounds).map { _ in (one: run(threads: 1), two: run(threads: 2)) }
    ratios = Quartiles(of: pairs.map { 2 * $0.one.wall / $0.two.wall })
    processorRatios = Quartiles(of: pairs.map { 2 * $0.one.processor / $0.two.processor })
  }
}
