#if Server
  internal import NIOCore
  internal import NIOHTTP1

  /// Instances are `Sendable` because only the connection's task and the calls that it awaits use them, one at a time.
  final class RequestParts: @unchecked Sendable {
    private var iterator: NIOAsyncChannelInboundStream<HTTPServerRequestPart>.AsyncIterator
    private let outbound: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>
    private(set) var isRequestOver = true
    private var awaitsContinue = false

    init(
      _ inbound: NIOAsyncChannelInboundStream<HTTPServerRequestPart>,
      _ outbound: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>
    ) {
      iterator = inbound.makeAsyncIterator()
      self.outbound = outbound
    }

    func nextHead() async throws -> HTTPRequestHead? {
      guard let part = try await iterator.next() else { return nil }
      guard case .head(let head) = part else { throw BodyBrokenOff() }
      isRequestOver = false
      // HTTP/1.0 does not define expectations (RFC 9110, 10.1.1).
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

    func skipAll() async throws { while try await iterator.next() != nil {} }
  }

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
