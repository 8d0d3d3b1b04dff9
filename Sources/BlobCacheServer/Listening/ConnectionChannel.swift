#if Server
  internal import HummingbirdCore
  internal import Logging
  internal import NIOCore
  internal import NIOHTTP1

  #if canImport(FoundationEssentials)
    internal import FoundationEssentials
  #else
    internal import Foundation
  #endif

  /// The connections of a server: on each, requests of HTTP/1.1 one after the other.
  ///
  /// The parts of messages are taken from NIO's decoder as they come. So the end of a body is seen, not guessed from the end
  /// of the connection: a PUT that breaks off must store nothing.
  struct ConnectionChannel: ServerChildChannel {
    typealias Value = NIOAsyncChannel<HTTPServerRequestPart, HTTPServerResponsePart>

    let responder: BlobResponder
    let limits: BlobServer.Limits
    /// nil for none.
    let requestLog: Logger?

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<Value> {
      channel.eventLoop.makeCompletedFuture {
        var decoding = NIOHTTPDecoderLimitConfiguration()
        decoding.maxHeaderFieldSize = limits.headerBytes
        decoding.maxHeaderListSize = limits.headerBytes
        decoding.maxHeaderFieldCount = 128
        let pipeline = channel.pipeline.syncOperations
        try pipeline.configureHTTPServerPipeline(
          withPipeliningAssistance: false, withErrorHandling: false, withOutboundHeaderValidation: true,
          withEncoderConfiguration: .init(), withDecoderLimitConfiguration: decoding)
        try pipeline.addHandler(ConnectionKeeper(patience: TimeAmount(limits.patience)))
        return try NIOAsyncChannel(
          wrappingChannelSynchronously: channel, configuration: .init(isOutboundHalfClosureEnabled: true))
      }
    }

    func handle(value connection: Value, logger: Logger) async {
      do {
        try await withTaskCancellationHandler {
          try await connection.executeThenClose { inbound, outbound in
            try await Conversation(responder, inbound, outbound, requestLog).run()
          }
        } onCancel: {
          connection.channel.close(mode: .input, promise: nil)
        }
      } catch {
        logger.debug("a connection ends: \(error)")
      }
    }
  }
#endif
