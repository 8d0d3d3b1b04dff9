internal import BlobStore
internal import Posix

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Removes unfinished files when SIGINT, SIGTERM or SIGHUP ends the process.
enum SignalEnd {
  private static let signals = [SIGINT, SIGTERM, SIGHUP]

  /// Must be called before the first other thread is created, because threads inherit the blocked signals.
  static func remove(_ files: TemporaryNames) {
    var set = sigset_t()
    sigemptyset(&set)
    for number in signals where !isIgnored(number) { sigaddset(&set, number) }
    var before = sigset_t()
    pthread_sigmask(SIG_BLOCK, &set, &before)
    files.watch()
    let awaited = set
    do {
      try OwnedThread {
        var (awaited, number) = (awaited, CInt(0))
        while sigwait(&awaited, &number) != 0 {}
        files.abandonAll { end(by: number) }
      }
    } catch {
      // Without the thread, a signal leaves files that a later collection removes.
      pthread_sigmask(SIG_SETMASK, &before, nil)
    }
  }

  /// Returns whether the signal is ignored, as SIGHUP is under `nohup`.
  private static func isIgnored(_ number: CInt) -> Bool {
    var action = sigaction()
    sigaction(number, nil, &action)
    #if canImport(Darwin)
      let handler = action.__sigaction_u.__sa_handler
    #else
      let handler = action.__sigaction_handler.sa_handler
    #endif
    // `SIG_IGN` is 1 on every platform. As functions, handlers cannot be compared.
    return unsafeBitCast(handler, to: Int.self) == 1
  }

  /// Ends the process by the signal, so that its parent can see the cause.
  private static func end(by number: CInt) -> Never {
    StandardError.clearStatusAtOnce()
    signal(number, SIG_DFL)
    var set = sigset_t()
    sigemptyset(&set)
    sigaddset(&set, number)
    pthread_sigmask(SIG_UNBLOCK, &set, nil)
    kill(getpid(), number)
    _exit(128 + number)
  }
}
