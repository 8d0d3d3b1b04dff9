#if Remote && Tool
  internal import ArgumentParser
  internal import BlobCache
  internal import BlobCacheCommands
  internal import BlobCacheRemote
  internal import SystemPackage

  /// The arguments and options of every subcommand.
  struct RemoteOptions: ParsableArguments {
    @Argument(
      help: ArgumentHelp(
        "The engine and the namespace, such as s3://bucket/team/app?region=eu-central-1.", valueName: "url"))
    var url: String

    @Flag(help: "Print results as JSON, an object per line.")
    var json = false

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp("Wait no longer than this for an answer; 30s if not given.", valueName: "d"),
      transform: TimeSpan.read)
    var timeout: TimeSpan?

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp(
        "Records are sealed by the first line of this file; without it, by nothing.", valueName: "file"))
    var sealKey: FilePath?
  }

  /// A subcommand that operates on a remote engine and returns an exit status.
  protocol RemoteSubcommand: AsyncParsableCommand {
    var options: RemoteOptions { get }

    func answer(_ records: RemoteRecords, _ output: inout Output) async throws -> Answer
  }

  extension RemoteSubcommand {
    func run() async throws {
      let place: RemoteURL
      do {
        place = try RemoteURL(options.url)
      } catch {
        throw ValidationError("<url>: \(error)")
      }
      let engine: any RemoteEngine
      let sealKey: RemoteSealKey?
      do {
        engine = try place.makeEngine()
        sealKey = try options.sealKey.map { file throws(RemoteSettingError) in try RemoteSealKey(file: file) }
      } catch {
        // A file that a setting refers to cannot be used.
        StandardError.report("\(error)")
        throw ExitCode(Answer.failed.rawValue)
      }
      var records = RemoteRecords(engine, namespace: place.namespace)
      records.sealKey = sealKey
      if let timeout = options.timeout { records.patience = timeout.duration }
      var output = Output()
      var status = Answer.failed
      do {
        status = try await answer(records, &output)
      } catch {
        StandardError.report("\(Self.configuration.commandName ?? ""): \(error)")
      }
      output.flush()
      await engine.close()
      if status != .done { throw ExitCode(status.rawValue) }
    }
  }
#endif
