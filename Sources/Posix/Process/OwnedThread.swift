internal import Locks
package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A thread for blocking work, separate from the runtime's threads; it is detached unless its owner joins it.
package final class OwnedThread: Sendable {
  /// The thread's handle as a number, which is never dereferenced, or `nil` after the join.
  private let handle: Lock<UInt?>

  /// Starts the work on a thread that blocks all signals, which are left to the program.
  ///
  /// - Throws: EAGAIN if the system cannot create a thread.
  @discardableResult
  package init(_ work: @escaping @Sendable () -> Void) throws(Errno) {
    let argument = unsafe Unmanaged.passRetained(Work(work)).toOpaque()
    #if canImport(Glibc) || canImport(Android)
      var thread = pthread_t()
    #else
      var thread: pthread_t?
    #endif
    var all = sigset_t()
    var before = sigset_t()
    unsafe sigfillset(&all)
    // A thread inherits the signal mask of its creator.
    unsafe pthread_sigmask(SIG_SETMASK, &all, &before)
    let failure = unsafe pthread_create(&thread, nil, run, argument)
    unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
    guard failure == 0 else {
      unsafe Unmanaged<Work>.fromOpaque(argument).release()
      throw Errno(rawValue: failure)
    }
    #if canImport(Glibc) || canImport(Android)
      handle = Lock(UInt(truncatingIfNeeded: thread))
    #else
      handle = Lock(unsafe UInt(bitPattern: thread))
    #endif
  }

  /// Waits until the work has ended, or detaches the thread if the work itself is the caller.
  package func join() {
    guard let thread = takeHandle() else { return }
    // These calls fail only for invalid, joined or detached threads.
    #if canImport(Glibc) || canImport(Android)
      if pthread_equal(thread, pthread_self()) == 0 { pthread_join(thread, nil) } else { pthread_detach(thread) }
    #else
      if unsafe pthread_equal(thread, pthread_self()) == 0 {
        unsafe pthread_join(thread, nil)
      } else {
        unsafe pthread_detach(thread)
      }
    #endif
  }

  deinit {
    guard let thread = takeHandle() else { return }
    #if canImport(Glibc) || canImport(Android)
      pthread_detach(thread)
    #else
      unsafe pthread_detach(thread)
    #endif
  }

  private func takeHandle() -> pthread_t? {
    guard let handle = handle.withLock({ $0.take() }) else { return nil }
    #if canImport(Glibc) || canImport(Android)
      return pthread_t(truncatingIfNeeded: handle)
    #else
      return unsafe pthread_t(bitPattern: handle)
    #endif
  }
}

private final class Work: Sendable {
  let body: @Sendable () -> Void
  init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}

#if canImport(Darwin)
  private func run(_ work: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
    unsafe Unmanaged<Work>.fromOpaque(work).takeRetainedValue().body()
    return nil
  }
#else
  private func run(_ work: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    if let work = unsafe work { unsafe Unmanaged<Work>.fromOpaque(work).takeRetainedValue().body() }
    return nil
  }
#endif
