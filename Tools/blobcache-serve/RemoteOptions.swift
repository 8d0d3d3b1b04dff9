#if Server
  internal import ArgumentParser
  internal import BlobCache
  internal import BlobCacheCommands

  /// The options of the remote tier, which is shared with other machines.
  struct RemoteOptions: ParsableArguments {
    @Option(
      name: .customLong("remote"), parsing: .unconditional,
      help: ArgumentHelp(
        """
        Share blobs with other machines by this engine, such as s3://BUCKET/NAMESPACE?region=R. Secrets belong into the \
        environment or a file.
        """, valueName: "url"))
    var url: String?

    @Option(
      name: .customLong("remote-mode"), parsing: .unconditional,
      help: ArgumentHelp("readWrite, readOnly or writeOnly; readWrite if not given.", valueName: "mode"))
    var mode: String?

    @Option(
      name: .customLong("remote-writing"), parsing: .unconditional,
      help: ArgumentHelp(
        "When a PUT is answered: behind, when it is here, or through, when it is there too; behind if not given.",
        valueName: "when"))
    var writing: String?

    @Option(
      name: .customLong("remote-timeout"), parsing: .unconditional,
      help: ArgumentHelp(
        "A GET waits this long for the engine's answer to begin, and is a miss then; 250 ms if not given.",
        valueName: "d"))
    var timeout: String?

    @Option(
      name: .customLong("remote-revalidate"), parsing: .unconditional,
      help: ArgumentHelp(
        "Ask the engine whether a blob is still the same, this long after its last word; else never.", valueName: "d"))
    var revalidatesAfter: String?

    @Option(
      name: .customLong("remote-rewrite"), parsing: .unconditional,
      help: ArgumentHelp(
        "Write an object anew when a load has met it at this age: half of what the engine keeps objects for.",
        valueName: "d"))
    var rewritesAfter: String?

    @Flag(
      name: .customLong("remote-announce"),
      help: "Tell the other machines of each store and removal, and drop copies that they tell of; for Valkey.")
    var announcesChanges = false

    @Option(
      name: .customLong("remote-seal-key"), parsing: .unconditional,
      help: ArgumentHelp(
        "Seal records by the first line of this file, 16 characters or more, and take no others.", valueName: "file"))
    var sealKey: String?

    @Option(
      name: .customLong("remote-flush"), parsing: .unconditional,
      help: ArgumentHelp(
        "When told to stop, wait this long for the engine to confirm stores and removals; 30s if not given.",
        valueName: "d"))
    var flush: String?

    func validate() throws {
      do {
        _ = try choice()
      } catch {
        throw ValidationError(Self.text(of: error))
      }
    }

    /// - Throws: `CommandFailure` if a file cannot be used or the engine does not support a setting.
    func tier() throws -> RemoteTier? {
      do {
        return try choice()?.tier()
      } catch {
        throw CommandFailure(Self.text(of: error))
      }
    }

    private func choice() throws(RemoteChoice.Mistake) -> RemoteChoice? {
      try RemoteChoice { field in
        switch field {
        case .name: nil
        case .remote: url
        case .remoteMode: mode
        case .remoteWriting: writing
        case .remoteTimeout: timeout
        case .remoteRevalidate: revalidatesAfter
        case .remoteRewrite: rewritesAfter
        case .remoteAnnounce: announcesChanges ? "true" : nil
        case .remoteSealKey: sealKey
        case .remoteFlush: flush
        }
      }
    }

    private static func text(of mistake: RemoteChoice.Mistake) -> String {
      "\(mistake.field.option): \(mistake.message)"
    }
  }

  extension ServePlan.Directory {
    /// The remote tier that the file configures, or `nil` if it configures no tier.
    ///
    /// - Throws: `UsageError` with the names of the file and the field.
    func remoteTier() throws -> RemoteTier? {
      do {
        return try RemoteChoice { self[$0] }?.tier()
      } catch {
        throw mistake(in: error.field, error.message)
      }
    }
  }
#endif
