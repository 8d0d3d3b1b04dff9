// W-TinyLFU; see `EvictionPolicy.wTinyLFU`. With `.lru`, only `victim` and `loser` are called, for the window.
extension ShardState {
  /// The window has a hundredth of the entries.
  @usableFromInline static var windowFraction: Int { 100 }
  /// The window has a twentieth of the cost; more than of the count, because the cost may allow only few entries.
  @usableFromInline static var costWindowFraction: Int128 { 20 }
  /// An entry with more than a sixteenth of the cost is expensive.
  @usableFromInline static var dearFraction: Int128 { 16 }

  /// A Boolean value that indicates whether shares apply to the cost, because its limit is closer than the count's.
  @inlinable
  var goesByCost: Bool {
    guard limits.cost != .max else { return false }
    return limits.count == ShardLimits.mostEntries
      || totalCost * Int128(limits.count) >= Int128(slots.count) * Int128(limits.cost)
  }

  @inlinable
  var isWindowTooWide: Bool {
    goesByCost
      ? windowCost * Self.costWindowFraction > totalCost : windowCount * Self.windowFraction > slots.count
  }

  /// A Boolean value that indicates whether more than 80 % of the entries outside the window are protected.
  @inlinable
  var isTooMuchProtected: Bool {
    goesByCost
      ? protectedCost * 5 > (totalCost - windowCost) * 4 : protectedCount * 5 > (slots.count - windowCount) * 4
  }

  @inlinable
  func cost(of slot: Slot) -> Int128 { Int128(unsafe slots.contents[Int(slot)].cost) }

  /// Moves a used entry to the front of the window, or of the protected segment if it has left the window.
  @inlinable
  mutating func noteUse(_ slot: Slot) {
    sketch.count(unsafe slots.links[Int(slot)].hash)
    let segment = slots.segment(of: slot)
    slots.unlink(slot)
    guard segment != .window else { return slots.linkFirst(slot, in: .window) }
    slots.linkFirst(slot, in: .protected)
    guard segment == .probation else { return }
    protectedCount += 1
    protectedCost += cost(of: slot)
    while isTooMuchProtected, let last = slots.last(in: .protected, except: slot) {
      slots.unlink(last)
      slots.linkFirst(last, in: .probation)
      protectedCount -= 1
      protectedCost -= cost(of: last)
    }
  }

  @inlinable
  mutating func noteInsertion(_ hash: UInt32, cost: Int) {
    sketch.reserve(slots.count)
    sketch.count(hash)
    windowCount += 1
    windowCost += Int128(cost)
  }

  /// Moves entries beyond the window's share to probation. The first entry stays, even if it is expensive.
  @inlinable
  mutating func narrowWindow() -> Candidates {
    var candidates = Candidates()
    while windowCount > 1, isWindowTooWide, let last = slots.last(in: .window) {
      slots.unlink(last)
      slots.linkFirst(last, in: .probation)
      windowCount -= 1
      windowCost -= cost(of: last)
      candidates.append(last)
    }
    return candidates
  }

  @inlinable
  mutating func noteRemoval(_ slot: Slot) {
    switch slots.segment(of: slot) {
    case .window: windowCount -= 1
    case .protected: protectedCount -= 1
    case .probation, .none: break
    }
    noteChange(of: slot, by: -cost(of: slot))
  }

  @inlinable
  mutating func noteChange(of slot: Slot, by change: Int128) {
    switch slots.segment(of: slot) {
    case .window: windowCost += change
    case .protected: protectedCost += change
    case .probation, .none: break
    }
  }

  /// Returns the next entry to evict in the order of the lists, except `spared`, the entry that was just set.
  @inlinable
  func victim(sparing spared: Slot) -> Slot? {
    guard policy != .lru else { return slots.last(in: .window, except: spared) }
    return slots.last(in: .probation, except: spared) ?? slots.last(in: .protected, except: spared)
      ?? slots.last(in: .window, except: spared)
  }

  /// Returns the next entry to evict to make room for a new one.
  ///
  /// A candidate is evicted unless it was used more often than each entry that it would displace. Without candidates,
  /// the order of the lists decides. But if an expensive entry needs the room of many, the less used of the two ends
  /// of probation is evicted, so that a frequent entry outlives a recent one.
  @inlinable
  func loser(sparing spared: Slot, _ candidates: inout Candidates) -> Slot? {
    guard policy != .lru, let victim = victim(sparing: spared) else { return victim(sparing: spared) }
    if let candidate = candidates.next {
      if candidate != victim, isAskedForMore(candidate, than: victim) { return victim }
      candidates.removeNext(before: unsafe slots.links[Int(candidate)].previous)
      return candidate
    }
    guard isDear(spared), slots.segment(of: victim) == .probation, let latest = slots.first(in: .probation),
      latest != spared,
      isAskedForMore(victim, than: latest)
    else { return victim }
    return latest
  }

  @inlinable
  func isDear(_ spared: Slot) -> Bool { spared != 0 && cost(of: spared) * Self.dearFraction > totalCost }

  @inlinable
  func isAskedForMore(_ slot: Slot, than other: Slot) -> Bool {
    unsafe sketch.frequency(of: slots.links[Int(slot)].hash) > sketch.frequency(of: slots.links[Int(other)].hash)
  }
}

/// Entries that have just left the window, which compete for their places; they are the first ones on probation.
@usableFromInline
struct Candidates {
  /// The candidate that left the window first.
  @usableFromInline var next: Slot?
  @usableFromInline var count = 0

  @inlinable
  init() {}

  @inlinable
  mutating func append(_ slot: Slot) {
    if next == nil { next = slot }
    count += 1
  }

  /// - Parameter slot: The slot before the next one, which left the window after it.
  @inlinable
  mutating func removeNext(before slot: Slot) {
    count -= 1
    next = count > 0 ? slot : nil
  }
}
