#if Server
  internal import NIOCore
  internal import NIOHTTP1

  /// Closes connections with an inactive client, or without a request during shutdown. Confined to the event loop.
  final class ConnectionKeeper: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// The minimum progress in bytes of a body in either direction. A client could otherwise occupy a connection forever.
    private static let leastBodyBytes = 16 << 10

    private let patience: TimeAmount
    private var lastProgress = NIODeadline.now()
    private var requestsUnderWay = 0
    private var isStopping = false
    private var pendingWrites = 0
    /// The number of bytes of bodies that were written to the connection.
    private var writtenBytes = 0
    /// The number of bytes that the client had received when it last made progress.
    private var takenBytes = 0
    /// The number of completely received requests without a complete response, for which the server itself is at work.
    private var wholeRequests = 0
    private var bodyBytes = 0
    /// The number of bytes that are still missing of a body with a length, and otherwise 0.
    private(set) var bodyBytesLeft = 0
    /// The time since which the server has been processing received data, or `nil` while it reads.
    private var stalledSince: NIODeadline?
    private var check: Scheduled<Void>?
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
      case .head(let head):
        requestsUnderWay += 1
        bodyBytesLeft = head.headers.first(name: "content-length").flatMap { Int($0) } ?? 0
        noteProgress()
      case .body(let bytes):
        bodyBytes += bytes.readableBytes
        bodyBytesLeft = max(0, bodyBytesLeft - bytes.readableBytes)
        if bodyBytes >= Self.leastBodyBytes { noteProgress() }
      case .end:
        bodyBytesLeft = 0
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
      let part = unwrapOutboundIn(data)
      let isEnd = if case .end = part { true } else { false }
      if case .body(let bytes) = part { writtenBytes += bytes.readableBytes }
      // While writes are pending, the client's progress alone counts.
      if pendingWrites == 0 { lastProgress = .now() }
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
      if pendingWrites == 0 {
        allIsTaken.take()?.succeed()
        lastProgress = .now()
      }
      guard isEnd else { return }
      requestsUnderWay -= 1
      wholeRequests -= 1
      if isStopping, requestsUnderWay == 0 { context.close(promise: nil) }
    }

    /// Returns a future that succeeds once the system has accepted all writes, or the connection has ended.
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

    /// Examines pending writes, because a client can receive one large write slowly.
    private func noteTakenBytes(_ context: ChannelHandlerContext) {
      let pending = try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)
      let taken = AcknowledgedBytes.count(of: context.channel) ?? writtenBytes - (pending ?? 0)
      guard taken - takenBytes >= Self.leastBodyBytes else { return }
      takenBytes = taken
      lastProgress = .now()
    }

    private func watch(_ context: ChannelHandlerContext) {
      guard check == nil else { return }
      let keeper = NIOLoopBound((self, context), eventLoop: context.eventLoop)
      check = context.eventLoop.scheduleTask(in: patience) {
        let (keeper, context) = keeper.value
        keeper.check = nil
        keeper.noteTakenBytes(context)
        // A wait for the disk is not the client's fault.
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
