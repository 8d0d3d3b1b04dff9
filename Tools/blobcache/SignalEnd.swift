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

/// Removes unfinished files when SIGINT, SIGTERM or SIGHUP end the process.
enum SignalEnd {
  private static let signals = [SIGINT, SIGTERM, SIGHUP]

  /// Call it before the first other thread is made, which inherits the blocked signals.
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
      // No thread: then a signal leaves what a collection takes.
      pthread_sigmask(SIG_SETMASK, &before, nil)
    }
  }

  /// As `nohup` leaves SIGHUP.
  private static func isIgnored(_ number: CInt) -> Bool {
    var action = sigaction()
    sigaction(number, nil, &action)
    #if canImport(Darwin)
      let handler = action.__sigaction_u.__sa_handler
    #else
      let handler = action.__sigaction_handler.sa_handler
    #endif
    // 1 on every platform; as a function it cannot be compared.
    return unsafeBitCast(handler, to: Int.self) == 1
  }

  /// Ends the process by the signal, so that its parent sees which one it was.
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
