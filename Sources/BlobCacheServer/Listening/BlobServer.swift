#if Server
  internal import HummingbirdCore
  public import Logging
  internal import NIOCore
  internal import NIOPosix
  public import ServiceLifecycle
  public import SystemPackage

  #if canImport(Darwin)
    internal import Darwin
  #elseif canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #elseif canImport(Android)
    internal import Android
  #endif

  /// An HTTP/1.1 server for `ServedDirectories`, as a service with graceful shutdown.
  ///
  /// During shutdown, it finishes the active requests and accepts no others.
  public struct BlobServer: Service {
    public let directories: ServedDirectories
    public let configuration: Configuration
    private let logger: Logger
    private let whenListening: @Sendable (Address) async -> Void

    /// Creates a server.
    ///
    /// - Parameters:
    ///   - directories: The directories, which answer the requests.
    ///   - configuration: The address and the limits of connections.
    ///   - logger: The logger for errors.
    ///   - whenListening: A closure that receives the actual address, with the port that replaces port 0.
    public init(
      directories: ServedDirectories, configuration: Configuration = Configuration(), logger: Logger,
      whenListening: @escaping @Sendable (Address) async -> Void = { _ in }
    ) {
      self.directories = directories
      self.configuration = configuration
      self.logger = logger
      self.whenListening = whenListening
    }

    /// Creates a server of one directory.
    public init(
      responder: BlobResponder, configuration: Configuration = Configuration(), logger: Logger,
      whenListening: @escaping @Sendable (Address) async -> Void = { _ in }
    ) {
      self.init(
        directories: ServedDirectories(responder), configuration: configuration, logger: logger,
        whenListening: whenListening)
    }

    /// Listens until graceful shutdown or cancellation of the task.
    ///
    /// - Throws: A system error if the server cannot listen on the address.
    public func run() async throws {
      let bindAddress: BindAddress =
        switch configuration.address {
        case .host(let name, let port): .hostname(name, port: port)
        case .unixSocket(let path): .unixDomainSocket(path: try await Self.freeSocket(at: path))
        }
      let access = directories.first.configuration.access
      let places = ConnectionPlaces(configuration.limits.connections)
      let server = Server(
        childChannelSetup: ConnectionChannel(
          directories: directories, limits: configuration.limits, places: places, encryption: configuration.encryption,
          isUnixSocket: configuration.address.isUnixSocket, requestLog: configuration.logsRequests ? logger : nil),
        configuration: ServerConfiguration(
          address: bindAddress, serverName: nil,
          availableConnectionsDelegate: MaximumAvailableConnections(places.connectionLimit, logger: logger)),
        onServerRunning: { [address = configuration.address, whenListening, logger, access] channel in
          if case .unixSocket(let path) = address { Self.setMode(of: path, access, logger) }
          await whenListening(address.withPort(channel.localAddress?.port))
        },
        eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger)
      try await server.run()
    }
  }

  extension BlobServer {
    /// Throws `addressInUse` if a server listens on the socket, because binding would replace its file.
    private static func freeSocket(at path: String) async throws -> String {
      guard path.utf8.count <= SocketPathTooLong.limit else { throw SocketPathTooLong(byteCount: path.utf8.count) }
      do {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
          .connect(unixDomainSocketPath: path).get()
        try await channel.close()
      } catch let error as IOError where [ECONNREFUSED, ENOENT].contains(error.errnoCode) {
        // A killed server left the file, or the file does not exist.
        return path
      }
      throw IOError(errnoCode: EADDRINUSE, reason: "a server answers at the socket")
    }

    /// Restricts the socket to the server's user, unless each user is checked. Not every system applies the mode.
    private static func setMode(of path: String, _ access: AccessControl, _ logger: Logger) {
      do {
        let mode = access.users == nil ? 0o600 : 0o666
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
      } catch {
        // The server already listens, and tokens or the directory's mode may restrict access.
        logger.warning("the mode of \(path) stays as it is: \(error)")
      }
    }
  }

  extension BlobServer {
    /// The address and the limits of a server.
    public struct Configuration: Sendable {
      public var address = Address.host("127.0.0.1", port: 8723)
      public var limits = Limits()
      /// The TLS settings, or `nil` for plain HTTP.
      public var encryption: Encryption?
      /// A Boolean value that indicates whether requests are logged at the level `notice` with status and duration.
      public var logsRequests = false

      public init() {}
    }

    /// An address on which a server listens.
    public enum Address: Hashable, Sendable, CustomStringConvertible {
      /// A network address or host name. The system selects the port if it is 0.
      case host(String, port: Int)
      /// A socket in the file system.
      ///
      /// Only the server's user can connect, unless the `AccessControl` names users. An unused socket file is replaced.
      case unixSocket(path: String)

      /// The text of the address, such as `127.0.0.1:8723`, `[::1]:8723` or `unix:/run/blobcache.sock`.
      public var description: String {
        switch self {
        case .host(let name, let port): name.contains(":") ? "[\(name)]:\(port)" : "\(name):\(port)"
        case .unixSocket(let path): "unix:\(path)"
        }
      }

      var isUnixSocket: Bool {
        if case .unixSocket = self { true } else { false }
      }

      func withPort(_ port: Int?) -> Address {
        if case .host(let name, _) = self, let port { .host(name, port: port) } else { self }
      }
    }

    /// The limits for the clients of a server.
    public struct Limits: Hashable, Sendable {
      /// The maximum number of concurrent connections, of which each peer may have three quarters.
      ///
      /// Further connections, of which a sixteenth of this number is open, answer `/healthz` and `/readyz`, and 503
      /// otherwise.
      public var connections = 1024
      /// The maximum size of a request's header fields, in bytes. Larger requests are answered with 431.
      public var headerBytes = 16 << 10
      /// The maximum size of a request's target, in bytes. Larger requests are answered with 431.
      ///
      /// A key of the maximum length fits if at most some thousand of its bytes are escaped. A larger limit would let
      /// each connection occupy more memory.
      public var targetBytes = 80 << 10
      /// The timeout of an idle connection, and of 16 KiB of a body in either direction.
      public var patience: Duration = .seconds(60)

      public init() {}
    }
  }

  /// The reason why a server failed to listen.
  public enum ListeningFailure {
    /// Returns the system's error number, or `nil` for another kind of error.
    public static func errno(of error: any Error) -> Errno? {
      (error as? IOError).map { Errno(rawValue: $0.errnoCode) }
    }
  }

  /// An error for a socket path that exceeds the system's limit.
  public struct SocketPathTooLong: Error, CustomStringConvertible {
    #if canImport(Darwin)
      static let limit = 103
    #else
      static let limit = 107
    #endif

    public let byteCount: Int

    public var description: String {
      "the path of a socket has at most \(Self.limit) bytes, and this one has \(byteCount)"
    }
  }
#endif
