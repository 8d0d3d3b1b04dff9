internal import Dispatch
internal import Locks
internal import Synchronization

/// Calls for the automatic trim, on a queue of the system.
///
/// It has no thread while there is nothing to do, needs no run loop, and stops when its cache goes.
final class TrimTimer: Sendable {
  private let interval: Duration?
  private let source = Lock<(any DispatchSourceTimer)?>(nil)
  private let isStarted = Atomic(false)

  /// - Parameter interval: raised to a millisecond; nil for a timer that never fires.
  init(interval: Duration?) {
    self.interval = interval
  }

  deinit {
    source.withLock { $0?.cancel() }
  }

  /// Starts; called again, it does nothing.
  func start(_ body: @escaping @Sendable () -> Void) {
    guard let interval, !isStarted.load(ordering: .relaxed), !isStarted.exchange(true, ordering: .relaxed) else {
      return
    }
    // A year at the most: Dispatch counts nanoseconds from now in 64 bits.
    let bounded = min(max(interval, .milliseconds(1)), .seconds(31_536_000))
    let period = DispatchTimeInterval.nanoseconds(Int(bounded.saturatedNanoseconds))
    source.withLock { source in
      let timer = DispatchSource.makeTimerSource(queue: DispatchQueue.global(qos: .utility))
      timer.schedule(
        deadline: .now() + period, repeating: period, leeway: .nanoseconds(Int(bounded.saturatedNanoseconds / 10)))
      timer.setEventHandler(handler: body)
      timer.activate()
      source = timer
    }
  }
}
