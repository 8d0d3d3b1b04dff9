#if Remote
  internal import Locks
  internal import NIOCore
  internal import NIOPosix
  internal import NIOSSL
  internal import Synchronization

  /// A connection with pipelining: several tasks send requests concurrently, and replies arrive in the same order.
  final class RESPConnection: Sendable {
    private let channel: any Channel
    private let state: RESPHandler.State

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

    var load: Int { state.load.load(ordering: .relaxed) }

    /// The time without any received byte while requests are pending, or zero if none is pending.
    var silence: Duration {
      let sign = state.lastSign.load(ordering: .relaxed)
      return sign == 0 ? .zero : .nanoseconds((NIODeadline.now() - .uptimeNanoseconds(sign)).nanoseconds)
    }

    func send(_ commands: [RESPCommand]) async throws -> [RESPValue] {
      try Task.checkCancellation()
      let request = RESPRequest(commands)
      state.load.add(request.weight, ordering: .relaxed)
      channel.writeAndFlush(request).whenFailure { [state] error in
        // The connection ended before the handler queued the request.
        request.outcome.end(.failure(state.failure.withLock { $0 } ?? error))
      }
      return try await request.outcome.value()
    }

    func close(_ error: any Error = ChannelError.alreadyClosed) {
      state.failure.withLock { $0 = $0 ?? error }
      channel.close(promise: nil)
    }

    func close(after time: TimeAmount, _ error: any Error) -> Scheduled<Void> {
      channel.eventLoop.scheduleTask(in: time) { [weak self] in self?.close(error) }
    }

    func whenClosed(_ body: @escaping @Sendable ((any Error)?) -> Void) {
      channel.closeFuture.whenComplete { [state] _ in body(state.failure.withLock { $0 }) }
    }
  }
#endif
