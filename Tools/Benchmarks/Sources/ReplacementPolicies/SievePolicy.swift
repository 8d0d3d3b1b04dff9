/// SIEVE: a queue whose entries keep their positions.
///
/// A hand moves from the oldest to the newest entry. It spares each entry once if it was used since the last pass of
/// the hand, and evicts the rest.
///
/// Source: Y. Zhang, J. Yang, Y. Yue, Y. Vigfusson, K. V. Rashmi, "SIEVE is Simpler than LRU: an Efficient Turn-Key
/// Eviction Algorithm for Web Caches", NSDI 2024.
package struct SievePolicy: ReplacementPolicy {
  private let capacity: Int
  private var entries = KeyQueues(queueCount: 1)
  private var hand = -1

  package init(capacity: Int, entryCount: Int) { self.capacity = capacity }

  package mutating func access(_ key: Int, weight: Int) -> Bool {
    if let slot = entries.slots[key] {
      entries.marks[slot] = 1
      return true
    }
    while entries.weight + weight > capacity { evict() }
    entries.insert(key, weight: weight, in: 0)
    return false
  }

  private mutating func evict() {
    var slot = hand >= 0 ? hand : entries.queues[0].last
    while entries.marks[slot] > 0 {
      entries.marks[slot] = 0
      slot = entries.before(slot)
      if slot < 0 { slot = entries.queues[0].last }
    }
    hand = entries.before(slot)
    entries.remove(slot, from: 0)
  }
}
