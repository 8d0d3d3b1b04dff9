#if Server
  internal import NIOCore
  internal import NIOHTTP1

  /// The parts of requests as they arrive on a connection.
  ///
  /// The task of the connection uses it, and whom it awaits: never two at once. That makes it `Sendable`.
  final class RequestParts: @unchecked Sendable {
    private var iterator: NIOAsyncChannelInboundStream<HTTPServerRequestPart>.AsyncIterator
    private let outbound: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>
    /// Whether all of the current request has arrived.
    private(set) var isRequestOver = true
    /// Whether the client waits for a word before it sends the body.
    private var awaitsContinue = false

    init(
      _ inbound: NIOAsyncChannelInboundStream<HTTPServerRequestPart>,
      _ outbound: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>
    ) {
      iterator = inbound.makeAsyncIterator()
      self.outbound = outbound
    }

    /// The head of the next request; nil at the end of the connection.
    func nextHead() async throws -> HTTPRequestHead? {
      guard let part = try await iterator.next() else { return nil }
      guard case .head(let head) = part else { throw BodyBrokenOff() }
      isRequestOver = false
      // Of HTTP/1.0 it is no expectation (RFC 9110, 10.1.1).
      awaitsContinue =
        head.version == .http1_1 && head.headers[canonicalForm: "expect"].contains { $0.lowercased() == "100-continue" }
      let hasBody =
        head.headers.contains(name: "transfer-encoding")
        || head.headers.first(name: "content-length").map { $0 != "0" } ?? false
      if !hasBody {
        awaitsContinue = false
        guard try await nextPiece() == nil else { throw BodyBrokenOff() }
      }
      return head
    }

    /// The next bytes of the body; nil at its end.
    ///
    /// - Throws: `BodyBrokenOff` if the connection ends before; what the decoder finds.
    func nextPiece() async throws -> ByteBuffer? {
      guard !isRequestOver else { return nil }
      if awaitsContinue {
        awaitsContinue = false
        try await outbound.write(.head(HTTPResponseHead(version: .http1_1, status: .continue)))
      }
      switch try await iterator.next() {
      case .body(let bytes): return bytes
      case .end:
        isRequestOver = true
        return nil
      case .head, nil: throw BodyBrokenOff()
      }
    }

    /// Takes what still comes, to the end of the connection.
    func skipAll() async throws { while try await iterator.next() != nil {} }
  }

  /// The body of the current request.
  struct RequestBodyPieces: AsyncSequence, Sendable {
    typealias Element = Data
    typealias Failure = any Error

    let parts: RequestParts

    func makeAsyncIterator() -> Iterator { Iterator(parts: parts) }

    struct Iterator: AsyncIteratorProtocol {
      let parts: RequestParts

      func next() async throws -> Data? {
        do {
          return try await parts.nextPiece().map { Data($0.readableBytesView) }
        } catch is CancellationError {
          throw CancellationError()
        } catch {
          throw BodyBrokenOff()
        }
      }
    }
  }
#endif
