// W-TinyLFU; see `EvictionPolicy.wTinyLFU`. With `.lru` all entries are in the window, and only `victim` is called.
extension ShardState {
  /// One entry in so many is in the window.
  @usableFromInline static var windowFraction: Int { 100 }

  /// Notes a use of an entry: it goes to the front, in the protected part if it has left the window.
  @inlinable
  mutating func noteUse(_ slot: Slot) {
    sketch.count(unsafe slots.links[Int(slot)].hash)
    let segment = slots.segment(of: slot)
    slots.unlink(slot)
    guard segment != .window else { return slots.linkFirst(slot, in: .window) }
    slots.linkFirst(slot, in: .protected)
    guard segment == .probation else { return }
    protectedCount += 1
    let mainCount = slots.count - windowCount
    guard protectedCount > mainCount - mainCount / 5, let last = slots.last(in: .protected) else { return }
    slots.unlink(last)
    slots.linkFirst(last, in: .probation)
    protectedCount -= 1
  }

  /// Notes that the first entry of the window is new.
  ///
  /// - Returns: what left the window for it, and has yet to win its place.
  @inlinable
  mutating func noteInsertion(_ hash: UInt32) -> Slot? {
    sketch.reserve(slots.count)
    sketch.count(hash)
    windowCount += 1
    var candidate: Slot?
    while windowCount > max(slots.count / Self.windowFraction, 1), let last = slots.last(in: .window) {
      slots.unlink(last)
      slots.linkFirst(last, in: .probation)
      windowCount -= 1
      candidate = last
    }
    return candidate
  }

  @inlinable
  mutating func noteRemoval(_ slot: Slot) {
    switch slots.segment(of: slot) {
    case .window: windowCount -= 1
    case .protected: protectedCount -= 1
    case .probation, .none: break
    }
  }

  /// The entry to evict next.
  ///
  /// - Parameters:
  ///   - spared: the entry just set, which is not evicted.
  ///   - candidate: an entry that gives way unless it was asked for more often than what it would drive out.
  @inlinable
  func victim(sparing spared: Slot, _ candidate: inout Slot?) -> Slot? {
    guard policy != .lru else { return slots.last(in: .window, except: spared) }
    let victim =
      slots.last(in: .probation, except: spared) ?? slots.last(in: .protected, except: spared)
      ?? slots.last(in: .window, except: spared)
    guard let victim, let challenger = candidate else { return victim }
    if challenger == victim || challenger == spared || wins(challenger, over: victim) {
      if challenger == victim { candidate = nil }
      return victim
    }
    candidate = nil
    return challenger
  }

  @inlinable
  func wins(_ challenger: Slot, over victim: Slot) -> Bool {
    unsafe sketch.frequency(of: slots.links[Int(challenger)].hash)
      > sketch.frequency(of: slots.links[Int(victim)].hash)
  }
}
