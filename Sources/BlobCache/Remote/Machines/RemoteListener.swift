internal import Synchronization

/// Listens to what other machines announce, and begins again when the connection breaks.
final class RemoteListener: Sendable {
  private let engine: any RemoteAnnouncing
  private let channel: String
  private let clock: any Clock<Duration>
  /// The pause before the next try, after so many in vain.
  private let pause: @Sendable (Int) -> Duration

  init(
    _ engine: any RemoteAnnouncing, channel: String, clock: any Clock<Duration>,
    pause: @escaping @Sendable (Int) -> Duration
  ) {
    self.engine = engine
    self.channel = channel
    self.clock = clock
    self.pause = pause
  }

  /// Listens until the task is cancelled.
  ///
  /// - Parameters:
  ///   - receive: is called with each text.
  ///   - hasMissed: called when it listens again: what was announced in between is not known.
  ///   - fails: called with what has ended it.
  func run(
    receive: @Sendable (String) async -> Void, hasMissed: @Sendable () -> Void,
    fails: @Sendable (any Error) -> Void
  ) async {
    var failures = 0
    while !Task.isCancelled {
      do {
        let texts = try await engine.announcements(on: channel)
        hasMissed()
        failures = 0
        for try await text in texts { await receive(text) }
      } catch {
        guard !Task.isCancelled else { return }
        fails(error)
      }
      failures += 1
      // The sleep's only error is its cancellation, which ends the loop.
      try? await clock.sleep(for: pause(failures))
    }
  }
}
