internal import Locks

/// The bytes that writers have in the making, which collections leave free for their commits.
///
/// Other processes do not see them.
final class RoomReservations: Sendable {
  private struct State {
    var bytes: [Int: Int64] = [:]
    var nextNumber = 0
  }

  private let state = Lock(State())

  /// Bytes to leave free below a limit: those of the largest writer, and those of all up to half of the limit.
  ///
  /// More would leave nothing else in the cache while many write.
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

/// Room for one writer's blob below the limit, until this value ends.
struct RoomReservation: ~Copyable, Sendable {
  private let limitEnforcer: LimitEnforcer
  private let number: Int
  private var byteCount: Int64 = 0

  init(_ limitEnforcer: LimitEnforcer) {
    self.limitEnforcer = limitEnforcer
    number = limitEnforcer.reservations.begin()
  }

  deinit { limitEnforcer.reservations.end(number) }

  /// Asks for as much room, if that is clearly more than before, and starts a collection if it is not there.
  mutating func grow(to byteCount: Int64) {
    guard byteCount > self.byteCount.saturatingAdding(max(self.byteCount / 8, Self.step)) else { return }
    reserve(byteCount)
  }

  /// Asks for as much room, and starts a collection if it is not there.
  mutating func reserve(_ byteCount: Int64) {
    self.byteCount = byteCount
    limitEnforcer.reservations.set(number, to: byteCount)
    limitEnforcer.makeReservedRoom()
  }

  /// Writers of less take their room at the commit.
  private static let step: Int64 = 1 << 20
}

extension LimitEnforcer {
  /// Waits for the room that a blob will need, as its store would.
  ///
  /// - Parameters:
  ///   - size: of the record.
  ///   - before: of the record that it replaces; asked for only where there is no room.
  /// - Throws: `limitReached` if no room can be made.
  func waitForRoom(for size: RecordSize, replacing before: () -> RecordSize?) throws {
    var wait: Wait?
    defer { stopAsking(&wait) }
    while let usage = try usage(beyondBoundsAfter: size, replacing: before) {
      try waitForRoom(&wait, usage, for: size.bytes)
    }
  }
}
