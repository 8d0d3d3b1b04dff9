#if Server
  internal import NIOCore
  internal import NIOHTTP1

  /// Ends a connection whose client does nothing, and one without a request when the server stops.
  ///
  /// It lives on the connection's event loop.
  final class ConnectionKeeper: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// Bytes of a body that are progress: with fewer, a client could hold a connection for ever.
    private static let leastBodyBytes = 16 << 10

    private let patience: TimeAmount
    private var lastProgress = NIODeadline.now()
    private var requestsUnderWay = 0
    private var isStopping = false
    /// Writes that the client has not taken.
    private var pendingWrites = 0
    /// Bytes of them at the last check. One write may be large, and be taken slowly.
    private var pendingBytes = 0
    /// Requests that have arrived to their ends, and whose answers have not: the server itself is at work.
    private var wholeRequests = 0
    /// Bytes of bodies since the last progress.
    private var bodyBytes = 0
    /// Since when the server reads nothing, because it is at work on what it has; nil while it reads.
    private var stalledSince: NIODeadline?
    private var check: Scheduled<Void>?
    /// Waits for the client to take what is written.
    private var allIsTaken: EventLoopPromise<Void>?
    private let eventLoop: any EventLoop

    init(patience: TimeAmount, on eventLoop: any EventLoop) {
      self.patience = patience
      self.eventLoop = eventLoop
    }

    func handlerAdded(context: ChannelHandlerContext) {
      if context.channel.isActive { watch(context) }
    }

    func channelActive(context: ChannelHandlerContext) {
      watch(context)
      context.fireChannelActive()
    }

    func handlerRemoved(context: ChannelHandlerContext) {
      check?.cancel()
      check = nil
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data) {
      case .head:
        requestsUnderWay += 1
        noteProgress()
      case .body(let bytes):
        bodyBytes += bytes.readableBytes
        if bodyBytes >= Self.leastBodyBytes { noteProgress() }
      case .end:
        wholeRequests += 1
        noteProgress()
      }
      context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
      stalledSince = .now()
      context.fireChannelReadComplete()
    }

    func read(context: ChannelHandlerContext) {
      if let since = stalledSince.take() { lastProgress = lastProgress + (.now() - since) }
      context.read()
    }

    private func noteProgress() {
      lastProgress = .now()
      bodyBytes = 0
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
      lastProgress = .now()
      let isEnd = if case .end = unwrapOutboundIn(data) { true } else { false }
      pendingWrites += 1
      let written = promise ?? context.eventLoop.makePromise()
      let keeper = NIOLoopBound((self, context), eventLoop: context.eventLoop)
      written.futureResult.whenComplete { _ in
        let (keeper, context) = keeper.value
        keeper.didWrite(isEnd: isEnd, context)
      }
      context.write(data, promise: written)
    }

    private func didWrite(isEnd: Bool, _ context: ChannelHandlerContext) {
      pendingWrites -= 1
      if pendingWrites == 0 { allIsTaken.take()?.succeed() }
      lastProgress = .now()
      guard isEnd else { return }
      requestsUnderWay -= 1
      wholeRequests -= 1
      if isStopping, requestsUnderWay == 0 { context.close(promise: nil) }
    }

    /// Succeeds once nothing is left that the system has not taken for the client, or will not: the connection has ended.
    func whenAllIsTaken() -> EventLoopFuture<Void> {
      guard pendingWrites > 0 else { return eventLoop.makeSucceededVoidFuture() }
      let taken = allIsTaken ?? eventLoop.makePromise()
      allIsTaken = taken
      return taken.futureResult
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      if event is ChannelShouldQuiesceEvent {
        isStopping = true
        if requestsUnderWay == 0 { context.close(promise: nil) }
      }
      context.fireUserInboundEventTriggered(event)
    }

    private func noteTakenBytes(_ context: ChannelHandlerContext) {
      guard let bytes = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes) else { return }
      if bytes != pendingBytes { lastProgress = .now() }
      pendingBytes = bytes
    }

    private func watch(_ context: ChannelHandlerContext) {
      guard check == nil else { return }
      let keeper = NIOLoopBound((self, context), eventLoop: context.eventLoop)
      check = context.eventLoop.scheduleTask(in: patience) {
        let (keeper, context) = keeper.value
        keeper.check = nil
        keeper.noteTakenBytes(context)
        // Waiting for the disk is no fault of the client's.
        let isOwnWork = (keeper.wholeRequests > 0 || keeper.stalledSince != nil) && keeper.pendingWrites == 0
        if !isOwnWork, .now() - keeper.lastProgress >= keeper.patience {
          context.close(promise: nil)
        } else {
          keeper.watch(context)
        }
      }
    }
  }
#endif
