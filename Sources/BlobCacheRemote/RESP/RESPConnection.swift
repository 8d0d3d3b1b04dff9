#if Remote
  internal import Locks
  internal import NIOCore
  internal import NIOPosix
  internal import NIOSSL
  internal import Synchronization

  /// A connection to a server. Requests of several tasks are on their way at once; replies come in their order.
  final class RESPConnection: Sendable {
    private let channel: any Channel
    private let state: RESPHandler.State

    /// Connects.
    ///
    /// - Parameters:
    ///   - time: how long that may take.
    ///   - encryption: makes what encrypts; nil for none.
    ///   - listener: takes what comes on channels that are listened to.
    /// - Throws: what NIO throws.
    init(
      host: String, port: Int, within time: TimeAmount, encryption: (@Sendable () throws -> NIOSSLClientHandler)?,
      listener: (@Sendable (RESPValue) -> Void)? = nil
    ) async throws {
      let state = RESPHandler.State()
      self.state = state
      channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .connectTimeout(time)
        .channelOption(.tcpOption(.tcp_nodelay), value: 1)
        .channelOption(.socketOption(.so_keepalive), value: 1)
        .channelOption(
          .recvAllocator, value: AdaptiveRecvByteBufferAllocator(minimum: 1024, initial: 4096, maximum: 1 << 18)
        )
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            if let encryption { try channel.pipeline.syncOperations.addHandler(encryption()) }
            try channel.pipeline.syncOperations.addHandler(RESPHandler(state, listener: listener))
          }
        }
        .connect(host: host, port: port).get()
    }

    deinit { channel.close(promise: nil) }

    var isOpen: Bool { channel.isActive && state.failure.withLock { $0 == nil } }

    /// How busy it is: about the requests that wait.
    var load: Int { state.load.load(ordering: .relaxed) }

    /// For how long nothing came, though a request waits; zero if none does.
    var silence: Duration {
      let sign = state.lastSign.load(ordering: .relaxed)
      return sign == 0 ? .zero : .nanoseconds((NIODeadline.now() - .uptimeNanoseconds(sign)).nanoseconds)
    }

    /// Sends commands together, one behind the other.
    ///
    /// - Returns: the reply to each.
    /// - Throws: why the connection ended; `CancellationError` if the task is cancelled.
    func send(_ commands: [RESPCommand]) async throws -> [RESPValue] {
      try Task.checkCancellation()
      let request = RESPRequest(commands)
      state.load.add(request.weight, ordering: .relaxed)
      channel.writeAndFlush(request).whenFailure { [state] error in
        // The connection ended before the request was among those that wait.
        request.outcome.end(.failure(state.failure.withLock { $0 } ?? error))
      }
      return try await request.outcome.value()
    }

    /// Ends the connection, and all that waits on it.
    ///
    /// - Parameter error: why.
    func close(_ error: any Error = ChannelError.alreadyClosed) {
      state.failure.withLock { $0 = $0 ?? error }
      channel.close(promise: nil)
    }

    /// Ends the connection after a time, unless what it returns is cancelled before.
    func close(after time: TimeAmount, _ error: any Error) -> Scheduled<Void> {
      channel.eventLoop.scheduleTask(in: time) { [weak self] in self?.close(error) }
    }

    /// Calls the body when the connection has ended.
    func whenClosed(_ body: @escaping @Sendable ((any Error)?) -> Void) {
      channel.closeFuture.whenComplete { [state] _ in body(state.failure.withLock { $0 }) }
    }
  }
#endif
