#if Server
  internal import ArgumentParser
  internal import BlobCache
  internal import BlobCacheCommands
  internal import BlobCacheServer
  internal import BlobStore
  internal import Logging
  internal import ServiceLifecycle
  internal import SystemPackage
  internal import UnixSignals

  /// Serves a directory over HTTP until it is stopped: Spec/Server.md.
  struct ServeTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
      commandName: "blobcache-serve", abstract: "Serve a directory of cached blobs over HTTP.",
      discussion: """
        Programs that use the directory by themselves may go on beside it. SIGTERM and SIGINT let requests under way \
        finish, for 30 seconds at most. Exit status: 0 stopped when told to, 2 it could not be done, 64 wrong usage.
        """)

    @Argument(help: ArgumentHelp("The cache's directory, which the first blob makes.", valueName: "dir"))
    var directory: FilePath?

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp(
        "Instead of one directory, serve those of this JSON file, each at a path that begins with its name.",
        valueName: "file"))
    var config: FilePath?

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp(
        "Listen there: HOST:PORT, where port 0 is one that is free, or unix:PATH.", valueName: "address"),
      transform: ListenAddress.read)
    var listen: ListenAddress?

    @Flag(
      help: """
        Serve one browser of this machine, at a port that is free: print an address that works once, and open it where \
        there is a screen.
        """)
    var view = false

    @OptionGroup(title: "Safety") var safety: SafetyOptions
    @OptionGroup(title: "Other machines") var remote: RemoteOptions

    @Option(
      name: .customLong("default-ttl"), parsing: .unconditional,
      help: ArgumentHelp(
        """
        How long blobs without a time to live last after their last access, or never; else as the directory has it, \
        or 600s.
        """, valueName: "d"), transform: DefaultTimeToLive.read)
    var defaultTimeToLive: DefaultTimeToLive?

    @Option(
      name: .customLong("tool-ttl"), parsing: .unconditionalSingleValue,
      help: ArgumentHelp(
        """
        How long products of a build tool last after their last use, such as bazel=30d or ccache=never; else as blobs \
        without a time to live. May be given again, for another tool.
        """, valueName: "tool=d"), transform: ToolLifetime.read)
    var toolLifetimes: [ToolLifetime] = []

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp(
        "Over this many bytes, stores evict the least used; else as the directory has it.", valueName: "s"),
      transform: ByteCount.read)
    var sizeLimit: ByteCount?

    @Option(
      parsing: .unconditional, help: ArgumentHelp("The largest payload; 1GiB if not given.", valueName: "s"),
      transform: ByteCount.read)
    var largestPayload: ByteCount?

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp(
        "Take at most so many bytes of blobs of more than 256 KiB at a time; 4GiB if not given.", valueName: "s"),
      transform: ByteCount.read)
    var inFlight: ByteCount?

    @Option(
      parsing: .unconditional,
      help: ArgumentHelp("Keep blobs of 64 KiB and less in this much memory; 64MiB if not given.", valueName: "s"),
      transform: ByteCount.read)
    var memory: ByteCount?

    @Option(
      name: .customLong("collect-every"), parsing: .unconditional,
      help: ArgumentHelp(
        "Remove what has expired, this long apart; else only stores remove, over a limit.", valueName: "d"),
      transform: TimeSpan.read)
    var collectionInterval: TimeSpan?

    @Flag(
      name: .customLong("allow-world-writable"),
      help: "Use a directory that everybody may write to and that has no sticky bit.")
    var allowsWorldWritable = false

    @Flag(name: .customLong("log-requests"), help: "Print a line on standard error for each request.")
    var logsRequests = false

    @Flag(help: "Do not print the address, nor warnings.")
    var quiet = false

    func validate() throws {
      guard (directory == nil) != (config == nil) else {
        throw ValidationError("Either <dir> or --config is needed.")
      }
      try safety.check(place)
      guard remote.url == nil || config == nil else {
        throw ValidationError("--remote is for one directory: in a file, each has a field remote.")
      }
      guard !view || config == nil else { throw ValidationError("--view is for one directory.") }
      guard !view || place.isLocal && place.isOnNetwork else {
        throw ValidationError("--view is for a browser of this machine, and \(place.address) is not: say 127.0.0.1:0.")
      }
    }

    func run() async throws {
      do {
        try await serve()
      } catch {
        StandardError.report(Self.text(of: error, at: place))
        throw ExitCode(error is UsageError ? 64 : 2)
      }
    }
  }

  extension ServeTool {
    /// The address to listen on.
    private var place: ListenAddress {
      listen ?? ListenAddress(address: .host("127.0.0.1", port: view ? 0 : 8723))
    }

    private func serve() async throws {
      let caches = try openCaches()
      let (access, encryption) = (try safety.accessControl(), try safety.encryption())
      Self.report(encryption?.warnings ?? [])
      var answering = BlobResponder.Configuration()
      answering.hostNames = place.isOnNetwork ? Set(safety.hosts) : nil
      answering.entranceToken = view ? RandomToken.make() : nil
      answering.access = access
      answering.transportIdentifiesClients = safety.clientAuthority != nil
      answering.isReadOnly = safety.readOnly
      for given in toolLifetimes { answering.toolLifetimes[given.tool] = given.lifetime.duration }
      if let inFlight { answering.bodyBytesOnDisk = inFlight.bytes }
      var listening = BlobServer.Configuration()
      listening.address = place.address
      listening.encryption = encryption
      listening.logsRequests = logsRequests
      // The other half of the descriptors is for the files that requests open.
      if let descriptors = DescriptorLimit.raise() {
        listening.limits.connections = min(listening.limits.connections, max(1, descriptors / 2))
      }
      let flushes = caches.compactMap { $0.cache.configuration.remote?.flushesOnCloseFor }
      let shutdown = ShutdownClock(deadline: max(Self.shutdownTime, flushes.max() ?? .zero))
      let server = BlobServer(
        directories: Self.served(caches, answering), configuration: listening, logger: logger
      ) { [quiet, token = answering.entranceToken] address in
        let names = caches.map { "\($0.cache.directory)" }.joined(separator: ", ")
        if let token {
          let entrance = "\(encryption == nil ? "http" : "https")://\(address)/ui/enter?token=\(token)"
          // Printed even with `--quiet`, because the token is the only way to enter.
          _ = try? FileDescriptor.standardOutput.writeAll("viewing \(names) at \(entrance)\n".utf8)
          Browser.open(entrance)
          return
        }
        guard !quiet else { return }
        let place =
          if case .host = address { "\(encryption == nil ? "http" : "https")://\(address)/" } else { "\(address)" }
        _ = try? FileDescriptor.standardOutput.writeAll("serving \(names) at \(place)\n".utf8)
      }
      var services = ServiceGroupConfiguration(
        services: [
          .init(service: server), .init(service: await reloading(access, encryption)), .init(service: shutdown),
        ],
        gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
      services.maximumGracefulShutdownDuration = Self.shutdownTime - Self.leastFlushTime - Self.closingTime
      let ended: Result<Void, any Error>
      do { ended = .success(try await ServiceGroup(configuration: services).run()) } catch { ended = .failure(error) }
      try await close(caches.map(\.cache), after: shutdown.elapsed)
      try ended.get()
    }

    /// The time for which running requests, and then changes of the remote tier, may delay the end of the program.
    static let shutdownTime: Duration = .seconds(30)
    /// The time that is left to close the caches.
    private static let closingTime: Duration = .seconds(1)
    /// The time that is left for the changes of the remote tier, however long the requests took.
    private static let leastFlushTime: Duration = .seconds(2)

    /// Closes all caches concurrently, because each may wait for its engine.
    ///
    /// - Parameter elapsed: The time since the signal to stop.
    /// - Throws: The first error, after all caches are closed.
    private func close(_ caches: [BlobCache], after elapsed: Duration) async throws {
      let errors = await withTaskGroup(of: (any Error)?.self) { group in
        for cache in caches {
          group.addTask {
            let flush = cache.configuration.remote.map { remote in
              max(remote.flushesOnCloseFor - elapsed - Self.closingTime, Self.leastFlushTime)
            }
            do { try await cache.close(flushingRemoteFor: flush) } catch { return error }
            return nil
          }
        }
        return await group.reduce(into: [any Error]()) { errors, error in if let error { errors.append(error) } }
      }
      if let first = errors.first { throw first }
    }

    /// Opens the caches and schedules of all directories. The name is `nil` if `directory` is given.
    private func openCaches() throws -> [(name: String?, cache: BlobCache)] {
      if let directory {
        var configuration = try cacheConfiguration(for: directory)
        configuration.remote = try remote.tier()
        let cache = try BlobCache(directory: directory, configuration: configuration)
        if let collectionInterval { try cache.scheduleCollection(.init(interval: collectionInterval.duration)) }
        return [(nil, cache)]
      }
      guard let config else { return [] }
      return try ServePlan(file: config, isName: ServedDirectories.isName).directories.map { plan in
        var configuration = try cacheConfiguration(for: plan.path, plan.configure)
        configuration.remote = try plan.remoteTier()
        let cache = try BlobCache(directory: plan.path, configuration: configuration)
        let timing = collectionInterval.map { BlobStore.CollectionTiming(interval: $0.duration) } ?? plan.timing
        if let timing { try cache.scheduleCollection(timing) }
        return (plan.name, cache)
      }
    }

    private static func served(
      _ caches: [(name: String?, cache: BlobCache)], _ configuration: BlobResponder.Configuration
    ) -> ServedDirectories {
      let responders = caches.map { ($0.name, BlobResponder(cache: $0.cache, configuration: configuration)) }
      guard let name = responders[0].0 else { return ServedDirectories(responders[0].1) }
      return ServedDirectories(responders.map { (name: $0.0 ?? name, responder: $0.1) })
    }

    private static func report(_ warnings: [SecretFileError]) {
      for warning in warnings { StandardError.report("\(warning); the others of the file are used") }
    }

    private func reloading(_ access: AccessControl, _ encryption: Encryption?) async -> ReloadService {
      var steps: [@Sendable () throws -> Void] = []
      if let file = safety.tokens { steps.append { access.replaceTokens(try TokenFile.tokens(at: file)) } }
      if let encryption {
        steps.append {
          try encryption.reload()
          Self.report(encryption.warnings)
        }
      }
      return ReloadService(steps: steps, hangups: await UnixSignalsSequence(trapping: .sighup), quiet: quiet)
    }

    /// - Parameter configure: A closure that applies the file's settings. Command line options override them.
    private func cacheConfiguration(
      for directory: FilePath, _ configure: (inout BlobStore.Configuration) -> Void = { _ in }
    ) throws -> BlobCache.Configuration {
      var configuration = BlobCache.Configuration()
      configuration.store = try BlobStore.Configuration(following: directory)
      configure(&configuration.store)
      configuration.store.logger = logger
      if allowsWorldWritable { configuration.store.access.allowsWorldWritable = true }
      if let defaultTimeToLive { configuration.store.expiry.defaultTimeToLive = defaultTimeToLive.duration }
      if let sizeLimit { configuration.store.limits.size = sizeLimit.bytes }
      if let largestPayload { configuration.store.limits.payload = largestPayload.bytes }
      if let memory { configuration.memory?.byteLimit = Int(clamping: memory.bytes) }
      return configuration
    }

    private var logger: Logger {
      let level: Logger.Level = quiet ? .error : logsRequests ? .notice : .warning
      return Logger(label: "blobcache-serve") { _ in StandardErrorLog(logLevel: level) }
    }

    private static func text(of error: any Error, at address: ListenAddress) -> String {
      if error is SocketPathTooLong { return "\(address.address): \(error)" }
      guard let errno = ListeningFailure.errno(of: error) else { return "\(error)" }
      let advice = errno == .addressInUse ? "; another program listens there, so choose another by --listen" : ""
      return "\(address.address): cannot listen: \(errno)\(advice)"
    }
  }
#endif
