#if Server
  internal import NIOCore

  /// Passes received bytes to the decoder in small parts, as the server asks for them.
  ///
  /// The decoder converts all bytes that it gets into parts of requests, which take about fifty times the memory of the
  /// bytes of a short request. A client that sends many requests without reading the responses could occupy that
  /// memory. Therefore, the bytes after the first `partByteCount` wait here until their reader asks for more. Only the
  /// bytes of a body whose length is known are passed on immediately. Confined to the event loop.
  final class RequestGate: ChannelDuplexHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    /// The number of bytes that are decoded together, of which the shortest requests have 27 each.
    static let partByteCount = 2 << 10

    private let keeper: ConnectionKeeper
    private var waiting = ByteBuffer()
    private var isPassingOn = false
    private var isAskedForMore = false
    /// The end of the client's side, which is passed on after the bytes before it.
    private var end: ChannelEvent?

    init(_ keeper: ConnectionKeeper) { self.keeper = keeper }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      var bytes = unwrapInboundIn(data)
      if waiting.readableBytes == 0 { waiting = bytes } else { waiting.writeBuffer(&bytes) }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
      guard waiting.readableBytes > 0 else { return context.fireChannelReadComplete() }
      passOn(context)
    }

    func read(context: ChannelHandlerContext) {
      if isPassingOn {
        isAskedForMore = true
      } else if waiting.readableBytes > 0 {
        passOn(context)
      } else {
        context.read()
      }
    }

    /// Passes on one part after another until the reader asks for no more.
    private func passOn(_ context: ChannelHandlerContext) {
      isPassingOn = true
      repeat {
        isAskedForMore = false
        let byteCount = min(max(Self.partByteCount, keeper.bodyBytesLeft), waiting.readableBytes)
        guard let part = waiting.readSlice(length: byteCount) else { break }
        if waiting.readableBytes == 0 { waiting = ByteBuffer() }
        context.fireChannelRead(wrapInboundOut(part))
        context.fireChannelReadComplete()
        // The request passes the handlers behind this one, which withhold it while enough parts wait for their reader.
        context.channel.read()
      } while isAskedForMore && waiting.readableBytes > 0
      isPassingOn = false
      guard waiting.readableBytes == 0 else { return }
      if let end = end.take() { context.fireUserInboundEventTriggered(end) }
      if isAskedForMore { context.read() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
      if let event = event as? ChannelEvent, case .inputClosed = event, waiting.readableBytes > 0 {
        end = event
      } else {
        context.fireUserInboundEventTriggered(event)
      }
    }

    /// Passes on the part of a body that has arrived. A complete body is stored even if its client reads no response.
    func channelInactive(context: ChannelHandlerContext) {
      let byteCount = min(keeper.bodyBytesLeft, waiting.readableBytes)
      if byteCount > 0, let rest = waiting.readSlice(length: byteCount) {
        context.fireChannelRead(wrapInboundOut(rest))
        context.fireChannelReadComplete()
      }
      waiting = ByteBuffer()
      context.fireChannelInactive()
    }
  }
#endif
