public import BlobStore
internal import Locks

/// A clock for schedules that advances only on request.
public final class ManualScheduleClock: Sendable {
  private let time = Lock(Duration.zero)
  private let schedules = Lock<[CollectionSchedule]>([])

  public init() {}

  /// Returns a clock for a schedule whose jitter is derived from a seed.
  package func clock(seed: UInt64 = 0) -> ScheduleClock {
    var clock = ScheduleClock()
    clock.now = { self.time.withLock { $0 } }
    clock.runs = false
    clock.generator = SeededGenerator(seed: seed)
    return clock
  }

  /// Notifies a schedule when the clock advances.
  public func drives(_ schedule: CollectionSchedule) {
    schedules.withLock { $0.append(schedule) }
  }

  public func advance(by delta: Duration) {
    time.withLock { $0 += delta }
    for schedule in schedules.withLock({ $0 }) { schedule.clockWasSet() }
  }
}
