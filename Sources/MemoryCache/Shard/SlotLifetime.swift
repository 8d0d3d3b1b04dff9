/// The end of an entry's lifetime, and the time by which each use moves it, or 0.
@usableFromInline
struct SlotLifetime: Sendable {
  @usableFromInline var deadline: Int64
  @usableFromInline let sliding: Int64

  @inlinable
  init(deadline: Int64, sliding: Int64) {
    self.deadline = deadline
    self.sliding = sliding
  }

  @inlinable
  var isUnlimited: Bool { deadline == .max && sliding == 0 }
}

extension SlotStorage {
  /// Returns when the entry expires; `Int64.max` means never.
  @inlinable
  @inline(__always)
  func deadline(of slot: Slot) -> Int64 { unsafe lifetimes?[Int(slot)].deadline ?? .max }

  var hasLifetimes: Bool { unsafe lifetimes != nil }

  /// Sets the lifetime of an entry, which is necessary for each new one.
  @inlinable
  mutating func setLifetime(_ lifetime: SlotLifetime, of slot: Slot) {
    if unsafe lifetimes == nil {
      if lifetime.isUnlimited { return }
      makeLifetimes()
    }
    unsafe lifetimes?[Int(slot)] = lifetime
  }

  @inlinable
  @inline(never)
  mutating func makeLifetimes() {
    let lifetimes = unsafe SlotMemory.allocate(capacity, of: SlotLifetime.self)
    unsafe lifetimes.initialize(repeating: SlotLifetime(deadline: .max, sliding: 0), count: highWater)
    unsafe self.lifetimes = lifetimes
  }

  @inlinable
  @inline(__always)
  func slideDeadline(of slot: Slot, from now: Int64) {
    guard let lifetime = unsafe lifetimes.map({ unsafe $0 + Int(slot) }) else { return }
    let sliding = unsafe lifetime.pointee.sliding
    if sliding > 0 { unsafe lifetime.pointee.deadline = EntryLifetime.end(now, sliding) }
  }
}
