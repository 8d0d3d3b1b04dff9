/// S3-FIFO: a small queue before the main queue, and a queue of ghosts.
///
/// Entries that are used again move from the small queue to the main queue; the others are evicted, and their keys
/// become ghosts. A requested ghost is inserted directly into the main queue.
///
/// Source: J. Yang, Y. Zhang, Z. Qiu, Y. Yue, K. V. Rashmi, "FIFO Queues are All You Need for Cache Eviction", SOSP
/// 2023, algorithm 1, with its parameters: a tenth for the small queue, and as many ghosts as main entries.
package struct S3FIFOPolicy: ReplacementPolicy {
  private let capacity: Int
  private let smallCapacity: Int
  /// The small queue and the main queue.
  private var entries = KeyQueues(queueCount: 2)
  private var ghosts = KeyQueues(queueCount: 1)

  package init(capacity: Int, entryCount: Int) {
    self.capacity = capacity
    smallCapacity = max(capacity / 10, 1)
  }

  package mutating func access(_ key: Int, weight: Int) -> Bool {
    if let slot = entries.slots[key] {
      entries.marks[slot] = min(entries.marks[slot] + 1, 3)
      return true
    }
    while entries.weight + weight > capacity { evict() }
    if let ghost = ghosts.slots[key] {
      ghosts.remove(ghost, from: 0)
      entries.insert(key, weight: weight, in: 1)
    } else {
      entries.insert(key, weight: weight, in: 0)
    }
    return false
  }

  private mutating func evict() {
    while true {
      let isFromSmall = entries.queues[0].weight >= smallCapacity || entries.queues[1].isEmpty
      let slot = entries.queues[isFromSmall ? 0 : 1].last
      let uses = entries.marks[slot]
      if isFromSmall, uses > 1 {
        entries.marks[slot] = 0
        entries.moveToFront(slot, from: 0, to: 1)
      } else if !isFromSmall, uses > 0 {
        entries.marks[slot] = uses - 1
        entries.moveToFront(slot, from: 1, to: 1)
      } else {
        if isFromSmall { remember(entries.key(at: slot), weight: entries.weight(at: slot)) }
        entries.remove(slot, from: isFromSmall ? 0 : 1)
        return
      }
    }
  }

  private mutating func remember(_ key: Int, weight: Int) {
    while !ghosts.queues[0].isEmpty, ghosts.weight + weight > capacity - smallCapacity {
      ghosts.remove(ghosts.queues[0].last, from: 0)
    }
    if weight <= capacity - smallCapacity { ghosts.insert(key, weight: weight, in: 0) }
  }
}
