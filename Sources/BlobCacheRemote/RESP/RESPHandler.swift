#if Remote
  internal import Locks
  internal import NIOCore
  internal import Synchronization

  final class RESPHandler: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundIn = RESPRequest
    typealias OutboundOut = ByteBuffer

    final class State: Sendable {
      let load = Atomic(0)
      /// The time of the last received bytes or first pending request in NIO's nanoseconds, or 0 if none is pending.
      let lastSign = Atomic<UInt64>(0)
      let failure = Lock<(any Error)?>(nil)
    }

    private let state: State
    private let listener: (@Sendable (RESPValue) -> Void)?
    private var decoder = RESPDecoder()
    private var unread: ByteBuffer?
    private var waiting = CircularBuffer<RESPRequest>()
    private var hasEnded = false
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
      // After a syntax error, the following bytes cannot be decoded.
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
        // Decoded bytes are discarded occasionally, so that a long sequence of replies does not grow the buffer.
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
