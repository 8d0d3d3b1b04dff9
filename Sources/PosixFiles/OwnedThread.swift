internal import Locks
package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// A thread for work that blocks, which neither the caller nor the concurrency runtime's threads should do. Its owner
/// joins it; one that nobody joins ends by itself.
@safe package final class OwnedThread: @unchecked Sendable {
  // Unchecked because of the handle, which on some platforms is a pointer: it is set once, and taken once.
  private let handle: Lock<pthread_t?>

  /// Starts the work, on a thread to which no signal is delivered: those are the program's business.
  ///
  /// - Throws: EAGAIN where the system has no thread to give.
  @discardableResult
  package init(_ work: @escaping @Sendable () -> Void) throws(Errno) {
    let argument = unsafe Unmanaged.passRetained(Work(work)).toOpaque()
    #if canImport(Darwin)
      var thread: pthread_t?
    #else
      var thread = pthread_t()
    #endif
    var all = sigset_t()
    var before = sigset_t()
    unsafe sigfillset(&all)
    // A thread inherits the mask of the one that makes it.
    unsafe pthread_sigmask(SIG_SETMASK, &all, &before)
    let failure = unsafe pthread_create(&thread, nil, run, argument)
    unsafe pthread_sigmask(SIG_SETMASK, &before, nil)
    guard failure == 0 else {
      unsafe Unmanaged<Work>.fromOpaque(argument).release()
      throw Errno(rawValue: failure)
    }
    handle = Lock(thread)
  }

  /// Waits for the work's end. Not for the thread itself to call.
  package func join() {
    guard let thread = handle.withLock({ $0.take() }) else { return }
    // Fails only for threads that are none, that are joined already, and for one that would join itself.
    #if canImport(Darwin)
      unsafe pthread_join(thread, nil)
    #else
      pthread_join(thread, nil)
    #endif
  }

  deinit {
    guard let thread = handle.withLock({ $0.take() }) else { return }
    // Fails only for threads that are none.
    #if canImport(Darwin)
      unsafe pthread_detach(thread)
    #else
      pthread_detach(thread)
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
