#if Server
  internal import Dispatch
  internal import Locks
  internal import ServiceLifecycle

  #if canImport(Darwin)
    internal import Darwin
  #elseif canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #elseif canImport(Android)
    internal import Android
  #endif

  /// Measures the time since the signal to stop, and ends the process at its deadline, whatever is running.
  ///
  /// The last service of a group receives the signal first.
  final class ShutdownClock: Service {
    private let began = Lock<ContinuousClock.Instant?>(nil)
    private let deadline: Duration

    /// - Parameter deadline: The time between the signal and the end of the process.
    init(deadline: Duration) { self.deadline = deadline }

    func run() async throws {
      // Tasks may occupy all their threads. A serial queue has a thread of its own.
      let queue = DispatchQueue(label: "blobcache-serve.deadline")
      let endLater = { @Sendable [seconds = Int(deadline.components.seconds)] in
        // Nothing is written first, because a thread may be waiting for the reader of standard error.
        queue.asyncAfter(deadline: .now() + .seconds(seconds)) { _exit(0) }
      }
      let sources = [SIGTERM, SIGINT].map { DispatchSource.makeSignalSource(signal: $0, queue: queue) }
      for source in sources {
        source.setEventHandler(handler: endLater)
        source.resume()
      }
      try await gracefulShutdown()
      began.withLock { $0 = .now }
      endLater()
      for source in sources { source.cancel() }
    }

    /// The time since the signal, or zero without one.
    var elapsed: Duration { began.withLock { $0 }.map { $0.duration(to: .now) } ?? .zero }
  }
#endif
