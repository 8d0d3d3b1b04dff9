/// W-TinyLFU: a small LRU window in front of a segmented LRU.
///
/// An entry that leaves the window is admitted to the main part only if it was requested more often than its victim,
/// by a frequency sketch that halves its counts periodically.
///
/// Source: G. Einziger, R. Friedman, B. Manes, "TinyLFU: A Highly Efficient Cache Admission Policy", ACM Transactions
/// on Storage 13(4), 2017. The parameters are the paper's: a window of 1 %, 80 % of the main part protected, a sample
/// of ten times the capacity. The window does not adapt.
package struct WTinyLFUPolicy: ReplacementPolicy {
  private enum Part { static let (window, probation, protected) = (0, 1, 2) }

  private let windowCapacity: Int
  private let mainCapacity: Int
  private let protectedCapacity: Int
  private var entries = KeyQueues(queueCount: 3)
  private let sketch: FrequencySketch

  package init(capacity: Int, entryCount: Int) {
    self.init(capacity: capacity, sketch: FrequencySketch(capacity: entryCount))
  }

  /// - Parameter sketch: The sketch that counts the requests of this cache, and possibly of other caches.
  package init(capacity: Int, sketch: FrequencySketch) {
    windowCapacity = max(capacity / 100, 1)
    mainCapacity = capacity - windowCapacity
    protectedCapacity = mainCapacity * 8 / 10
    self.sketch = sketch
  }

  package mutating func access(_ key: Int, weight: Int) -> Bool {
    sketch.count(key)
    guard let slot = entries.slots[key] else {
      entries.insert(key, weight: weight, in: Part.window)
      while entries.queues[Part.window].weight > windowCapacity { leaveWindow() }
      return false
    }
    switch entries.marks[slot] {
    case Part.window: entries.moveToFront(slot, from: Part.window, to: Part.window)
    case Part.protected: entries.moveToFront(slot, from: Part.protected, to: Part.protected)
    default:
      move(slot, from: Part.probation, to: Part.protected)
      while entries.queues[Part.protected].weight > protectedCapacity {
        move(entries.queues[Part.protected].last, from: Part.protected, to: Part.probation)
      }
    }
    return true
  }

  private mutating func move(_ slot: Int, from part: Int, to target: Int) {
    entries.marks[slot] = target
    entries.moveToFront(slot, from: part, to: target)
  }

  private mutating func leaveWindow() {
    let candidate = entries.queues[Part.window].last
    let weight = entries.weight(at: candidate)
    while entries.queues[Part.probation].weight + entries.queues[Part.protected].weight + weight > mainCapacity {
      let part = entries.queues[Part.probation].isEmpty ? Part.protected : Part.probation
      let victim = entries.queues[part].last
      guard victim >= 0,
        sketch.frequency(of: entries.key(at: candidate)) > sketch.frequency(of: entries.key(at: victim))
      else {
        entries.remove(candidate, from: Part.window)
        return
      }
      entries.remove(victim, from: part)
    }
    move(candidate, from: Part.window, to: Part.probation)
  }
}

/// The approximate recent request frequency of keys: a count-min sketch with counters up to 15.
package final class FrequencySketch {
  private static let rowCount = 4
  private let mask: Int
  private let sampleSize: Int
  private var counters: [UInt8]
  private var additions = 0

  /// - Parameter capacity: The number of entries to distinguish. Ten times as many uses halve the counts.
  package init(capacity: Int) {
    var width = 8
    while width < capacity * 2 { width *= 2 }
    mask = width - 1
    sampleSize = capacity * 10
    counters = Array(repeating: 0, count: width * Self.rowCount)
  }

  private func index(_ key: Int, row: Int) -> Int {
    var z = UInt64(bitPattern: Int64(key)) &+ UInt64(row + 1) &* 0x9E37_79B9_7F4A_7C15
    z = (z ^ (z >> 30)) &* 0xBF58_476D_1CE4_E5B9
    z = (z ^ (z >> 27)) &* 0x94D0_49BB_1331_11EB
    return row * (mask + 1) + Int(truncatingIfNeeded: z ^ (z >> 31)) & mask
  }

  func frequency(of key: Int) -> UInt8 {
    (0..<Self.rowCount).reduce(15) { min($0, counters[index(key, row: $1)]) }
  }

  func count(_ key: Int) {
    for row in 0..<Self.rowCount {
      let index = index(key, row: row)
      counters[index] = min(counters[index] + 1, 15)
    }
    additions += 1
    guard additions == sampleSize else { return }
    for index in counters.indices { counters[index] /= 2 }
    additions /= 2
  }
}
