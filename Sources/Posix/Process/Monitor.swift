#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// State shared by threads, with a condition variable to wait for changes or a timeout.
///
/// It blocks the calling thread, so it must not be used on threads of the concurrency runtime.
@safe package final class Monitor<State: Sendable>: @unchecked Sendable {
  // Unchecked because of `state`, which the mutex protects, and of the pointers, which are set once.
  private var state: State
  private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
  private let condition = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)

  /// The decision of a thread that has checked the state.
  package enum Finding<Result> {
    case done(Result)
    /// Check again after a change, or after the duration if it is not `nil`.
    case wait(Duration?)
  }

  package init(_ state: State) {
    self.state = state
    // These calls fail only for lack of memory or with invalid arguments.
    unsafe pthread_mutex_init(mutex, nil)
    unsafe initializeCondition(condition)
  }

  deinit {
    unsafe pthread_cond_destroy(condition)
    unsafe pthread_mutex_destroy(mutex)
    unsafe condition.deallocate()
    unsafe mutex.deallocate()
  }

  /// Changes the state and wakes all waiting threads.
  @discardableResult
  package func change<Result, Failure: Error>(_ body: (inout State) throws(Failure) -> Result) throws(Failure) -> Result
  {
    unsafe pthread_mutex_lock(mutex)
    defer {
      unsafe pthread_mutex_unlock(mutex)
      // A thread woken earlier would only wait for the mutex.
      unsafe pthread_cond_broadcast(condition)
    }
    return try body(&state)
  }

  /// Waits until `body`, which is called with the state locked, and possibly early, returns a result.
  ///
  /// Changes that it makes do not wake other threads.
  package func wait<Result>(_ body: (inout State) -> Finding<Result>) -> Result {
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    while true {
      switch body(&state) {
      case .done(let result): return result
      case .wait(let duration?): sleep(atMost: duration)
      case .wait(nil): unsafe pthread_cond_wait(condition, mutex)
      }
    }
  }

  private func sleep(atMost duration: Duration) {
    // Limited so that no addition overflows; after that, a longer wait checks the state again.
    let longest: Duration = .seconds(1 << 30)
    let (seconds, attoseconds) = min(max(duration, .zero), longest).components
    var time = timespec(tv_sec: Int(seconds), tv_nsec: Int(attoseconds / 1_000_000_000))
    #if canImport(Darwin)
      unsafe pthread_cond_timedwait_relative_np(condition, mutex, &time)
    #else
      var now = timespec()
      // Fails only for invalid clocks and pointers.
      unsafe clock_gettime(CLOCK_MONOTONIC, &now)
      time.tv_sec += now.tv_sec + (time.tv_nsec + now.tv_nsec) / 1_000_000_000
      time.tv_nsec = (time.tv_nsec + now.tv_nsec) % 1_000_000_000
      unsafe pthread_cond_timedwait(condition, mutex, &time)
    #endif
  }
}

/// Uses a clock that is not affected by changes of the system time.
private func initializeCondition(_ condition: UnsafeMutablePointer<pthread_cond_t>) {
  #if canImport(Darwin)
    unsafe pthread_cond_init(condition, nil)
  #else
    var attributes = pthread_condattr_t()
    unsafe pthread_condattr_init(&attributes)
    unsafe pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC)
    unsafe pthread_cond_init(condition, &attributes)
    unsafe pthread_condattr_destroy(&attributes)
  #endif
}
