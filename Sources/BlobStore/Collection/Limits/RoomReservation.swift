internal import Locks

/// The bytes that writers are producing, for which collections leave room. Other processes do not see them.
final class RoomReservations: Sendable {
  private struct State {
    var bytes: [Int: Int64] = [:]
    var nextNumber = 0
  }

  private let state = Lock(State())

  /// Returns the bytes to leave free: the largest reservation, or all reservations up to half of the limit. More would
  /// evict almost everything else while many writers are active.
  func room(within limit: Int64) -> Int64 {
    state.withLock { state in
      let sum = state.bytes.values.reduce(Int64(0)) { $0.saturatingAdding($1) }
      return max(state.bytes.values.max() ?? 0, min(sum, limit / 2))
    }
  }

  fileprivate func begin() -> Int {
    state.withLock { state in
      defer { state.nextNumber += 1 }
      state.bytes[state.nextNumber] = 0
      return state.nextNumber
    }
  }

  fileprivate func set(_ number: Int, to byteCount: Int64) { state.withLock { $0.bytes[number] = byteCount } }

  fileprivate func end(_ number: Int) { state.withLock { $0.bytes[number] = nil } }
}

/// A reservation of room for a writer's blob below the limit, until this value is destroyed.
struct RoomReservation: ~Copyable, Sendable {
  private let limitEnforcer: LimitEnforcer
  private let number: Int
  private var byteCount: Int64 = 0

  init(_ limitEnforcer: LimitEnforcer) {
    self.limitEnforcer = limitEnforcer
    number = limitEnforcer.reservations.begin()
  }

  deinit { limitEnforcer.reservations.end(number) }

  /// Reserves more room if the blob has grown much, and starts a collection if that room is not available.
  mutating func grow(to byteCount: Int64) {
    guard byteCount > self.byteCount.saturatingAdding(max(self.byteCount / 8, Self.step)) else { return }
    reserve(byteCount)
  }

  mutating func reserve(_ byteCount: Int64) {
    self.byteCount = byteCount
    limitEnforcer.reservations.set(number, to: byteCount)
    limitEnforcer.makeReservedRoom()
  }

  /// The minimum reservation. Smaller writers take their room at the commit.
  private static let step: Int64 = 1 << 20
}

extension LimitEnforcer {
  /// Waits for the room that a blob needs, like its store would. Throws `limitReached` if no room can be made.
  func waitForRoom(for size: RecordSize, replacing before: () -> RecordSize?) throws {
    var wait: Wait?
    defer { stopAsking(wait) }
    while let usage = try usage(beyondBoundsAfter: size, replacing: before) {
      try waitForRoom(&wait, usage, for: size.bytes)
    }
  }
}
