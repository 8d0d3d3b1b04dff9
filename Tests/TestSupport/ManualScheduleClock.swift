public import BlobStore
internal import Locks

/// A clock for schedules that stands still until it is told to move.
public final class ManualScheduleClock: Sendable {
  private let time = Lock(Duration.zero)
  private let schedules = Lock<[CollectionSchedule]>([])

  public init() {}

  /// For a schedule whose jitter comes from a seed.
  package func clock(seed: UInt64 = 0) -> ScheduleClock {
    var clock = ScheduleClock()
    clock.now = { self.time.withLock { $0 } }
    clock.runs = false
    clock.generator = SeededGenerator(seed: seed)
    return clock
  }

  /// Has a schedule hear of it when the clock moves.
  public func drives(_ schedule: CollectionSchedule) {
    schedules.withLock { $0.append(schedule) }
  }

  public func advance(by delta: Duration) {
    time.withLock { $0 += delta }
    for schedule in schedules.withLock({ $0 }) { schedule.clockWasSet() }
  }
}
