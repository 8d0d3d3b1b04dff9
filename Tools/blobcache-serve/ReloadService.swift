#if Server
  internal import BlobCacheCommands
  internal import ServiceLifecycle
  internal import UnixSignals

  /// Reads files again on SIGHUP. What a bad file was to replace stays.
  struct ReloadService: Service {
    /// Each reads one file.
    let steps: [@Sendable () throws -> Void]
    /// Trapped before the server listens: a program that sees its address may send the signal.
    let hangups: UnixSignalsSequence
    let quiet: Bool

    func run() async throws {
      for await _ in hangups.cancelOnGracefulShutdown() {
        var isSound = true
        for step in steps {
          do {
            try step()
          } catch {
            isSound = false
            StandardError.report("stays as it was: \(error)")
          }
        }
        if isSound, !quiet { StandardError.report("tokens and certificates were read again") }
      }
    }
  }
#endif
