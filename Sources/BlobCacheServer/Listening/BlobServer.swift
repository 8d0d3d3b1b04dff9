#if Server
  internal import HummingbirdCore
  internal import HummingbirdTLS
  public import Logging
  internal import NIOCore
  internal import NIOPosix
  public import ServiceLifecycle

  /// A server over HTTP/1.1 that answers by a `BlobResponder`, as a service that stops gracefully.
  ///
  /// It finishes the requests under way when it is told to stop, and takes no more.
  public struct BlobServer: Service {
    public let responder: BlobResponder
    public let configuration: Configuration
    private let logger: Logger
    private let whenListening: @Sendable (Address) async -> Void

    /// - Parameters:
    ///   - responder: makes the answers.
    ///   - configuration: where to listen, and what a connection may take.
    ///   - logger: receives what goes wrong.
    ///   - whenListening: receives the address as it is, with the port that the system has chosen for port 0.
    public init(
      responder: BlobResponder, configuration: Configuration = Configuration(), logger: Logger,
      whenListening: @escaping @Sendable (Address) async -> Void = { _ in }
    ) {
      self.responder = responder
      self.configuration = configuration
      self.logger = logger
      self.whenListening = whenListening
    }

    /// Listens until the service is told to stop, or its task is cancelled.
    ///
    /// - Throws: an error of the system's if the address cannot be listened at.
    public func run() async throws {
      let bindAddress: BindAddress =
        switch configuration.address {
        case .host(let name, let port): .hostname(name, port: port)
        case .unixSocket(let path): .unixDomainSocket(path: path)
        }
      let server = Server(
        childChannelSetup: ConnectionChannel(
          responder: responder, limits: configuration.limits, requestLog: configuration.logsRequests ? logger : nil),
        configuration: ServerConfiguration(
          address: bindAddress, serverName: nil,
          availableConnectionsDelegate: MaximumAvailableConnections(configuration.limits.connections, logger: logger)),
        onServerRunning: { [address = configuration.address, whenListening] channel in
          await whenListening(address.withPort(channel.localAddress?.port))
        },
        eventLoopGroup: MultiThreadedEventLoopGroup.singleton, logger: logger)
      try await server.run()
    }
  }
#endif
