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

  /// A server over HTTP/1.1 that answers by `ServedDirectories`, as a service that stops gracefully.
  ///
  /// It finishes the requests under way when it is told to stop, and takes no more.
  public struct BlobServer: Service {
    public let directories: ServedDirectories
    public let configuration: Configuration
    private let logger: Logger
    private let whenListening: @Sendable (Address) async -> Void

    /// - Parameters:
    ///   - directories: make the answers.
    ///   - configuration: where to listen, and what a connection may take.
    ///   - logger: receives what goes wrong.
    ///   - whenListening: receives the address as it is, with the port that the system has chosen for port 0.
    public init(
      directories: ServedDirectories, configuration: Configuration = Configuration(), logger: Logger,
      whenListening: @escaping @Sendable (Address) async -> Void = { _ in }
    ) {
      self.directories = directories
      self.configuration = configuration
      self.logger = logger
      self.whenListening = whenListening
    }

    /// A server of one directory.
    public init(
      responder: BlobResponder, configuration: Configuration = Configuration(), logger: Logger,
      whenListening: @escaping @Sendable (Address) async -> Void = { _ in }
    ) {
      self.init(
        directories: ServedDirectories(responder), configuration: configuration, logger: logger,
        whenListening: whenListening)
    }

    /// Listens until the service is told to stop, or its task is cancelled.
    ///
    /// - Throws: an error of the system's if the address cannot be listened at.
    public func run() async throws {
      let bindAddress: BindAddress =
        switch configuration.address {
        case .host(let name, let port): .hostname(name, port: port)
        case .unixSocket(let path): .unixDomainSocket(path: try await Self.freeSocket(at: path))
        }
      let access = directories.first.configuration.access
      let server = Server(
        childChannelSetup: ConnectionChannel(
          directories: directories, limits: configuration.limits, encryption: configuration.encryption,
          isUnixSocket: configuration.address.isUnixSocket, requestLog: configuration.logsRequests ? logger : nil),
        configuration: ServerConfiguration(
          address: bindAddress, serverName: nil,
          availableConnectionsDelegate: MaximumAvailableConnections(configuration.limits.connections, logger: logger)),
        onServerRunning: { [address = configuration.address, whenListening, logger, access] channel in
          if case .unixSocket(let path) = address { Self.setMode(of: path, access, logger) }
          await whenListening(address.withPort(channel.localAddress?.port))
        },
        eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger)
      try await server.run()
    }
  }

  extension BlobServer {
    /// Sees that no server answers at a socket, which listening would take from it.
    ///
    /// - Throws: `SocketPathTooLong`; `addressInUse` as an error of the system's.
    private static func freeSocket(at path: String) async throws -> String {
      guard path.utf8.count <= SocketPathTooLong.limit else { throw SocketPathTooLong(byteCount: path.utf8.count) }
      do {
        let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
          .connect(unixDomainSocketPath: path).get()
        try await channel.close()
      } catch let error as IOError where [ECONNREFUSED, ENOENT].contains(error.errnoCode) {
        // No server listens: one that was killed has left the file, or there is no file.
        return path
      }
      throw IOError(errnoCode: EADDRINUSE, reason: "a server answers at the socket")
    }

    /// Lets the user of the server alone connect, or all where each is asked for, as far as the system goes by the mode.
    private static func setMode(of path: String, _ access: AccessControl, _ logger: Logger) {
      do {
        let mode = access.users == nil ? 0o600 : 0o666
        try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
      } catch {
        // Listening has begun, and tokens or the directory's mode may keep others out.
        logger.warning("the mode of \(path) stays as it is: \(error)")
      }
    }
  }

  extension BlobServer {
    /// Where a server listens, and what it allows.
    public struct Configuration: Sendable {
      public var address = Address.host("127.0.0.1", port: 8723)
      public var limits = Limits()
      /// TLS; nil for plain HTTP.
      public var encryption: Encryption?
      /// Whether each request is logged, at the level `notice`: what it asks for, its status, and how long it took.
      public var logsRequests = false

      public init() {}
    }

    /// Where a server listens.
    public enum Address: Hashable, Sendable, CustomStringConvertible {
      /// An address of a network, or a name of one. The system chooses the port if it is 0.
      case host(String, port: Int)
      /// A socket in the file system. It is for the user of the server alone, unless its `AccessControl` names users. A
      /// socket without a server behind it is replaced.
      case unixSocket(path: String)

      /// Such as `127.0.0.1:8723`, `[::1]:8723` or `unix:/run/blobcache.sock`.
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

    /// What the clients of a server may take of it.
    public struct Limits: Hashable, Sendable {
      /// Connections at a time. Others wait until one ends.
      public var connections = 1024
      /// Bytes of the fields of a request, and of its target. More is answered with 431.
      public var headerBytes = 16 << 10
      /// How long a connection may be without a request, and a client without sending 16 KiB of a body, or taking anything
      /// of an answer.
      public var patience: Duration = .seconds(60)

      public init() {}
    }
  }

  /// Why a server does not listen.
  public enum ListeningFailure {
    /// The system's reason; nil for an error of another kind.
    public static func errno(of error: any Error) -> Errno? {
      (error as? IOError).map { Errno(rawValue: $0.errnoCode) }
    }
  }

  /// The path of a socket has more bytes than the system takes.
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
