#if Server
  internal import HummingbirdCore
  internal import Logging
  internal import NIOCore
  internal import NIOHTTP1

  /// Sets up connections with NIO's decoder, which reports the end of a body, so that an aborted PUT stores nothing.
  struct ConnectionChannel: ServerChildChannel {
    struct Value: ServerChildChannelValue {
      let parts: NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>
      let keeper: NIOLoopBound<ConnectionKeeper>
      /// A Boolean value that indicates whether the connection answers more than questions about the server's health.
      let hasPlace: Bool
      /// A Boolean value that indicates whether the system may send from files, which encryption prevents.
      let sendsFiles: Bool

      var channel: any Channel { parts.channel }
    }

    let directories: ServedDirectories
    let limits: BlobServer.Limits
    let places: ConnectionPlaces
    let encryption: Encryption?
    let isUnixSocket: Bool
    let requestLog: Logger?

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
      channel.eventLoop.makeCompletedFuture {
        var decoding = NIOHTTPDecoderLimitConfiguration()
        // The decoder counts the target as a field. `Conversation` counts the fields without it.
        decoding.maxHeaderFieldSize = max(limits.targetBytes, limits.headerBytes)
        decoding.maxHeaderListSize = limits.targetBytes + limits.headerBytes
        decoding.maxHeaderFieldCount = 128
        // One read brings at most 64 KiB, which wait in `RequestGate`.
        try channel.syncOptions?.setOption(.maxMessagesPerRead, value: 1)
        let pipeline = channel.pipeline.syncOperations
        if let encryption { try pipeline.addHandler(encryption.makeHandler()) }
        let keeper = ConnectionKeeper(patience: TimeAmount(limits.patience), on: channel.eventLoop)
        try pipeline.addHandler(RequestGate(keeper))
        // `Conversation` sets the framing fields, because NIO adds chunked encoding to HEAD responses without a length.
        var encoding = HTTPResponseEncoder.Configuration()
        encoding.automaticallySetFramingHeaders = false
        try pipeline.configureHTTPServerPipeline(
          withPipeliningAssistance: false, withErrorHandling: false, withOutboundHeaderValidation: true,
          withEncoderConfiguration: encoding, withDecoderLimitConfiguration: decoding)
        try pipeline.addHandler(keeper)
        let parts = try NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>(
          wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true))
        return Value(
          parts: parts, keeper: NIOLoopBound(keeper, eventLoop: channel.eventLoop), hasPlace: places.take(for: channel),
          sendsFiles: encryption == nil)
      }
    }

    func handle(value connection: Value, logger: Logger) async {
      let peerUser = isUnixSocket ? await PeerUser.number(of: connection.channel) : nil
      do {
        try await withTaskCancellationHandler {
          try await connection.parts.executeThenClose { inbound, outbound in
            try await Conversation(
              directories, connection, inbound, outbound, requestLog, peerUser, headerBytes: limits.headerBytes
            ).run()
          }
        } onCancel: {
          // TLS cannot close one half of a connection.
          connection.channel.close(mode: encryption == nil ? .input : .all, promise: nil)
        }
      } catch {
        logger.debug("a connection ends: \(error)")
      }
    }
  }
#endif
