/// FIFO: evicts the oldest entry, independent of its uses.
package struct FIFOPolicy: ReplacementPolicy {
  private let capacity: Int
  private var entries = KeyQueues(queueCount: 1)

  package init(capacity: Int, entryCount: Int) { self.capacity = capacity }

  package mutating func access(_ key: Int, weight: Int) -> Bool {
    if entries.slots[key] != nil { return true }
    while entries.weight + weight > capacity { entries.remove(entries.queues[0].last, from: 0) }
    entries.insert(key, weight: weight, in: 0)
    return false
  }
}
