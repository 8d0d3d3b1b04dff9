/// A number of key queues in arrays, on which most of these policies are based.
struct KeyQueues {
  struct Queue {
    fileprivate(set) var first = -1
    fileprivate(set) var last = -1
    /// The sum of the weights of its keys.
    fileprivate(set) var weight = 0

    var isEmpty: Bool { first < 0 }
  }

  /// The slot of each queued key.
  private(set) var slots: [Int: Int] = [:]
  private var keys: [Int] = []
  private var weights: [Int] = []
  private var next: [Int] = []
  private var previous: [Int] = []
  private var free: [Int] = []
  /// The policy's data for each slot, such as a queue number or a use count.
  var marks: [Int] = []
  var queues: [Queue]

  init(queueCount: Int) {
    queues = Array(repeating: Queue(), count: queueCount)
  }

  func key(at slot: Int) -> Int { keys[slot] }
  func weight(at slot: Int) -> Int { weights[slot] }
  func before(_ slot: Int) -> Int { previous[slot] }

  var weight: Int { queues.reduce(0) { $0 + $1.weight } }

  /// Inserts a new key at the front.
  mutating func insert(_ key: Int, weight: Int, in queue: Int) {
    let slot: Int
    if let reused = free.popLast() {
      slot = reused
      keys[slot] = key
      weights[slot] = weight
      marks[slot] = 0
    } else {
      slot = keys.count
      keys.append(key)
      weights.append(weight)
      marks.append(0)
      next.append(-1)
      previous.append(-1)
    }
    slots[key] = slot
    link(slot, in: queue)
  }

  mutating func remove(_ slot: Int, from queue: Int) {
    unlink(slot, from: queue)
    slots[keys[slot]] = nil
    free.append(slot)
  }

  mutating func moveToFront(_ slot: Int, from queue: Int, to target: Int) {
    unlink(slot, from: queue)
    link(slot, in: target)
  }

  private mutating func link(_ slot: Int, in queue: Int) {
    let first = queues[queue].first
    previous[slot] = -1
    next[slot] = first
    if first >= 0 { previous[first] = slot } else { queues[queue].last = slot }
    queues[queue].first = slot
    queues[queue].weight += weights[slot]
  }

  private mutating func unlink(_ slot: Int, from queue: Int) {
    let (before, after) = (previous[slot], next[slot])
    if before >= 0 { next[before] = after } else { queues[queue].first = after }
    if after >= 0 { previous[after] = before } else { queues[queue].last = before }
    queues[queue].weight -= weights[slot]
  }
}
