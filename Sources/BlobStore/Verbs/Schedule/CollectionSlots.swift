internal import Posix

/// Bounds how many of the schedules that share it make a pass at the same time.
public final class CollectionSlots: Sendable {
  private let free: Monitor<Int>

  /// - Parameter count: at least one.
  public init(_ count: Int) {
    free = Monitor(max(count, 1))
  }

  /// Waits for a slot.
  ///
  /// - Returns: false, without one, if the schedule is to stop.
  func take(unless isStopping: () -> Bool) -> Bool {
    free.wait { free in
      if isStopping() { return .done(false) }
      guard free > 0 else { return .wait(nil) }
      free -= 1
      return .done(true)
    }
  }

  func giveBack() {
    free.change { $0 += 1 }
  }

  /// Makes waiting schedules look whether they must stop.
  func wake() {
    free.change { _ in }
  }
}
