#if Server
  internal import ArgumentParser
  internal import BlobCache
  internal import BlobCacheCommands
  internal import BlobCacheRemote

  /// The tier that other machines share.
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
      help: ArgumentHelp("readWrite, readOnly or writeOnly; readWrite if not given.", valueName: "mode"),
      transform: Self.mode)
    var mode: RemoteTier.Mode?

    @Option(
      name: .customLong("remote-writing"), parsing: .unconditional,
      help: ArgumentHelp(
        "When a PUT is answered: behind, when it is here, or through, when it is there too; behind if not given.",
        valueName: "when"), transform: Self.writing)
    var writing: RemoteTier.Writing?

    func validate() throws {
      guard url != nil || mode == nil && writing == nil else {
        throw ValidationError("--remote-mode and --remote-writing are for --remote.")
      }
      do {
        _ = try url.map { try RemoteURL($0) }
      } catch {
        throw ValidationError("--remote: \(error)")
      }
    }

    /// - Throws: `CommandFailure` for a file of the URL's that cannot be used.
    func tier() throws -> RemoteTier? {
      guard let url else { return nil }
      do {
        return try Self.tier(url, mode, writing)
      } catch {
        throw CommandFailure("--remote: \(error)")
      }
    }

    /// The tier of a directory in a configuration file.
    ///
    /// - Throws: `UsageError`, naming file and field.
    static func tier(_ plan: ServePlan.Directory) throws -> RemoteTier? {
      func value<Value>(_ field: ServedField, _ read: (String) throws -> Value) throws -> Value? {
        do {
          return try plan[field].map(read)
        } catch let error as ValidationError {
          throw plan.mistake(in: field, error.message)
        }
      }
      let (mode, writing) = (try value(.remoteMode, mode), try value(.remoteWriting, writing))
      guard let url = plan[.remote] else {
        if mode != nil || writing != nil { throw plan.mistake(in: .remote, "is missing, and other fields are for it") }
        return nil
      }
      do {
        return try tier(url, mode, writing)
      } catch {
        throw plan.mistake(in: .remote, "\(error)")
      }
    }

    private static func tier(
      _ url: String, _ mode: RemoteTier.Mode?, _ writing: RemoteTier.Writing?
    ) throws -> RemoteTier {
      let place = try RemoteURL(url)
      var tier = RemoteTier(try place.makeEngine(), namespace: place.namespace)
      if let mode { tier.mode = mode }
      if let writing { tier.writing = writing }
      return tier
    }

    @Sendable private static func mode(_ text: String) throws -> RemoteTier.Mode {
      guard let mode = RemoteTier.Mode(rawValue: text) else {
        throw ValidationError("it must be readWrite, readOnly or writeOnly")
      }
      return mode
    }

    @Sendable private static func writing(_ text: String) throws -> RemoteTier.Writing {
      guard let writing = RemoteTier.Writing(rawValue: text) else {
        throw ValidationError("it must be behind or through")
      }
      return writing
    }
  }
#endif
