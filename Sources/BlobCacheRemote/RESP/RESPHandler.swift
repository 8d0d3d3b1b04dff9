#if Remote
  internal import Locks
  internal import NIOCore
  internal import Synchronization

  /// Sends requests and gives each its replies, in order.
  final class RESPHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = RESPRequest
    typealias OutboundOut = ByteBuffer

    /// What other threads ask of a connection.
    final class State: Sendable {
      /// The sum of the weights of the requests that wait.
      let load = Atomic(0)
      /// When bytes came last, or the first of the requests that wait was sent, in nanoseconds of NIO's clock. 0 if none waits.
      let lastSign = Atomic<UInt64>(0)
      /// Why the connection ended.
      let failure = Lock<(any Error)?>(nil)
    }

    private let state: State
    /// Takes what comes on channels that are listened to; nil for a connection without any.
    private let listener: (@Sendable (RESPValue) -> Void)?
    private var decoder = RESPDecoder()
    private var unread: ByteBuffer?
    private var waiting = CircularBuffer<RESPRequest>()
    private var hasEnded = false
    /// Those of the first request.
    private var replies: [RESPValue] = []

    init(_ state: State, listener: (@Sendable (RESPValue) -> Void)?) {
      self.state = state
      self.listener = listener
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
      let request = unwrapOutboundIn(data)
      if waiting.isEmpty { noteSign() }
      waiting.append(request)
      context.writeAndFlush(wrapOutboundOut(request.bytes), promise: promise)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      // Behind bytes that were not understood, none are.
      guard !hasEnded else { return }
      noteSign()
      var bytes = unwrapInboundIn(data)
      if unread == nil { unread = bytes } else { unread?.writeBuffer(&bytes) }
      do throws(RESPSyntaxError) {
        while !hasEnded, let value = try nextValue() { take(value, context) }
      } catch {
        end(error, context)
      }
    }

    private func nextValue() throws(RESPSyntaxError) -> RESPValue? {
      guard var bytes = unread.take() else { return nil }
      let value = try decoder.next(from: &bytes)
      if bytes.readableBytes > 0 {
        // What was read is let go now and then, so that a long run of replies does not grow the buffer.
        if bytes.readerIndex > 1 << 16 { bytes.discardReadBytes() }
        unread = bytes
      }
      return value
    }

    private func take(_ value: RESPValue, _ context: ChannelHandlerContext) {
      if let listener, value.elements?.first?.text == "message" { return listener(value) }
      if case .push = value, listener == nil { return }
      guard let request = waiting.first else {
        if case .error(let text) = value { return end(RESPErrorReply(text: text), context) }
        return end(RESPSyntaxError("sends a reply to no request"), context)
      }
      replies.append(value)
      guard replies.count == request.replyCount else { return }
      waiting.removeFirst()
      state.load.subtract(request.weight, ordering: .relaxed)
      if waiting.isEmpty { state.lastSign.store(0, ordering: .relaxed) }
      request.outcome.end(.success(replies))
      replies = []
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      end(error, context)
    }

    func channelInactive(context: ChannelHandlerContext) {
      fail(ChannelError.eof)
      context.fireChannelInactive()
    }

    private func end(_ error: any Error, _ context: ChannelHandlerContext) {
      hasEnded = true
      fail(error)
      context.close(promise: nil)
    }

    /// Ends all that wait. The first reason counts.
    private func fail(_ error: any Error) {
      let reason = state.failure.withLock { failure in
        failure = failure ?? error
        return failure ?? error
      }
      let ended = waiting
      waiting = []
      for request in ended { request.outcome.end(.failure(reason)) }
    }

    private func noteSign() { state.lastSign.store(NIODeadline.now().uptimeNanoseconds, ordering: .relaxed) }
  }
#endif
