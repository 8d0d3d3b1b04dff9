#if Server
  internal import Locks
  internal import ServiceLifecycle

  /// Measures the time since the signal to stop. The last service of a group receives the signal first.
  final class ShutdownClock: Service {
    private let began = Lock<ContinuousClock.Instant?>(nil)

    func run() async throws {
      try await gracefulShutdown()
      began.withLock { $0 = .now }
    }

    /// The time since the signal, or zero without one.
    var elapsed: Duration { began.withLock { $0 }.map { $0.duration(to: .now) } ?? .zero }
  }
#endif
