internal import Locks

// Members that only tests use.

extension MemoryCache {
  /// The bytes of the slots, without the objects of keys and values.
  package var slotByteCount: Int {
    shards.reduce(0) { sum, shard in sum + shard.state.withLock { $0.slots.byteCount + $0.sketch.byteCount } }
  }

  /// Traps if an invariant of a shard is broken; O(*n*) for *n* entries.
  package func checkInvariants() {
    for shard in shards { shard.state.withLock { $0.checkInvariants() } }
  }
}

extension ShardState {
  func checkInvariants() {
    slots.checkInvariants()
    var cost: Int128 = 0
    var counts = [Segment: Int]()
    var costs = [Segment: Int128]()
    for segment in [Segment.window, .probation, .protected] {
      slots.forEachSlot(in: segment, leastRecentFirst: true) { slot in
        cost += Int128(unsafe slots.contents[Int(slot)].cost)
        counts[segment, default: 0] += 1
        costs[segment, default: 0] += Int128(unsafe slots.contents[Int(slot)].cost)
        return true
      }
    }
    precondition(cost == totalCost, "entries cost \(cost), \(totalCost) counted")
    precondition(!isOverLimit, "over the limits")
    guard policy != .lru else { return precondition(counts[.window] ?? 0 == slots.count, "not all in the window") }
    precondition(counts[.window] ?? 0 == windowCount, "\(windowCount) in the window counted")
    precondition(counts[.protected] ?? 0 == protectedCount, "\(protectedCount) protected counted")
    precondition(costs[.window] ?? 0 == windowCost, "\(windowCost) in the window counted")
    precondition(costs[.protected] ?? 0 == protectedCost, "\(protectedCost) protected counted")
  }
}

extension SlotStorage {
  func checkInvariants() {
    var listed = 0
    for segment in [Segment.window, .probation, .protected] {
      forEachSlot(in: segment, leastRecentFirst: false) { slot in
        listed += 1
        let entry = unsafe links[Int(slot)]
        precondition(entry.segment == segment, "slot \(slot) in the wrong list")
        precondition(unsafe links[Int(entry.next)].previous == slot, "links of slot \(slot)")
        let found = find(unsafe contents[Int(slot)].key, entry.hash)
        precondition(found == slot, "slot \(slot) is not found")
        return true
      }
    }
    precondition(listed == count, "\(listed) entries in the lists, \(count) counted")
    let indexed = (0...indexMask).count { unsafe index[$0].slot != 0 }
    precondition(indexed == count, "\(indexed) entries in the index, \(count) counted")
    let used = (Self.firstSlot..<highWater).count { unsafe links[$0].segment != .none }
    precondition(used == count, "\(used) slots in use, \(count) counted")
  }
}
