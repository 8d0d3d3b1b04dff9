/// The least recently used goes first.
struct LRUPolicy: ReplacementPolicy {
  private let capacity: Int
  private var entries = KeyQueues(queueCount: 1)

  init(capacity: Int) { self.capacity = capacity }

  mutating func access(_ key: Int) -> Bool {
    if let slot = entries.slots[key] {
      entries.moveToFront(slot, from: 0, to: 0)
      return true
    }
    if entries.queues[0].count == capacity { entries.remove(entries.queues[0].last, from: 0) }
    entries.insert(key, in: 0)
    return false
  }
}
