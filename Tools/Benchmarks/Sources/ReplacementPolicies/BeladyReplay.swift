/// Belady's algorithm, which evicts the key with the latest next use.
///
/// A key whose next use is even later is not admitted. For keys of one weight, no policy has more hits.
package enum BeladyReplay {
  package static func hits(on trace: AccessTrace, capacity: Int) -> HitCount {
    let nextUses = trace.nextUses
    var count = HitCount()
    // The next use of each entry. The heap may also contain stale elements.
    var entries: [Int: Int] = [:]
    var heap = LatestFirst()
    var used = 0
    for (index, (key, weight)) in zip(trace.keys, trace.weights).enumerated() {
      let isHit = entries[key] != nil
      count.add(isHit: isHit, weight: weight)
      if !isHit {
        guard weight <= capacity, nextUses[index] < .max else { continue }
        var isRefused = false
        while used + weight > capacity, let latest = heap.latest {
          guard entries[trace.keys[latest.access]] == latest.nextUse else {
            heap.removeLatest()
            continue
          }
          if latest.nextUse <= nextUses[index] {
            isRefused = true
            break
          }
          heap.removeLatest()
          entries[trace.keys[latest.access]] = nil
          used -= trace.weights[latest.access]
        }
        if isRefused { continue }
        used += weight
      }
      entries[key] = nextUses[index]
      heap.insert(LatestFirst.Element(nextUse: nextUses[index], access: index))
    }
    return count
  }
}

extension AccessTrace {
  /// The index of the next access to the same key for each access, or `Int.max` if the key is not accessed again.
  fileprivate var nextUses: [Int] {
    var result = [Int](repeating: .max, count: keys.count)
    var last: [Int: Int] = [:]
    for index in keys.indices.reversed() {
      result[index] = last[keys[index]] ?? .max
      last[keys[index]] = index
    }
    return result
  }
}

/// A max-heap by next use.
private struct LatestFirst {
  struct Element {
    let nextUse: Int
    let access: Int
  }

  private var elements: [Element] = []

  var latest: Element? { elements.first }

  mutating func insert(_ element: Element) {
    elements.append(element)
    var index = elements.count - 1
    while index > 0, elements[(index - 1) / 2].nextUse < elements[index].nextUse {
      elements.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  mutating func removeLatest() {
    elements.swapAt(0, elements.count - 1)
    elements.removeLast()
    var index = 0
    while 2 * index + 1 < elements.count {
      var child = 2 * index + 1
      if child + 1 < elements.count, elements[child + 1].nextUse > elements[child].nextUse { child += 1 }
      guard elements[child].nextUse > elements[index].nextUse else { return }
      elements.swapAt(index, child)
      index = child
    }
  }
}
