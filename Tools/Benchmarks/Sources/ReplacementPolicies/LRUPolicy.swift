/// LRU: evicts the least recently used entry.
package struct LRUPolicy: ReplacementPolicy {
  private let capacity: Int
  private var entries = KeyQueues(queueCount: 1)

  package init(capacity: Int, entryCount: Int) { self.capacity = capacity }

  package mutating func access(_ key: Int, weight: Int) -> Bool {
    if let slot = entries.slots[key] {
      entries.moveToFront(slot, from: 0, to: 0)
      return true
    }
    while entries.weight + weight > capacity { entries.remove(entries.queues[0].last, from: 0) }
    entries.insert(key, weight: weight, in: 0)
    return false
  }
}
