#if Server
  internal import BlobCacheCommands
  internal import ServiceLifecycle
  internal import UnixSignals

  /// Reloads files on SIGHUP. If a file is invalid, its previous content stays in effect.
  struct ReloadService: Service {
    /// The reload functions, one per file.
    let steps: [@Sendable () throws -> Void]
    /// The SIGHUP sequence, trapped before the address is printed, because readers may then send it.
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
