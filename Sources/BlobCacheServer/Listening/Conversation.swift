#if Server
  internal import BlobRecord
  internal import Logging
  internal import NIOCore
  internal import NIOHTTP1

  #if canImport(FoundationEssentials)
    internal import FoundationEssentials
  #else
    internal import Foundation
  #endif

  /// What is said on one connection: requests, and an answer to each.
  struct Conversation {
    private let responder: BlobResponder
    private let parts: RequestParts
    private let outbound: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>
    private let allocator = ByteBufferAllocator()
    private let requestLog: Logger?

    /// Bytes of a body that nobody wants, which are read so that the client comes to see the answer.
    private static let mostSkippedBytes = 1 << 20

    init(
      _ responder: BlobResponder, _ inbound: NIOAsyncChannelInboundStream<HTTPServerRequestPart>,
      _ outbound: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>, _ requestLog: Logger?
    ) {
      self.requestLog = requestLog
      self.responder = responder
      parts = RequestParts(inbound, outbound)
      self.outbound = outbound
    }

    /// Answers until the client or an answer ends the connection.
    func run() async throws {
      do {
        while let head = try await parts.nextHead() {
          guard try await answer(head) else { break }
        }
      } catch let error as HTTPParserError {
        // Where the next request would begin is not known.
        try await refuse(error)
      }
      outbound.finish()
      try await skipBody()
    }

    /// - Returns: whether another request may follow.
    private func answer(_ head: HTTPRequestHead) async throws -> Bool {
      var fields = HeaderFields()
      fields.reserveCapacity(head.headers.count)
      for (name, value) in head.headers { fields.append(name, value) }
      let start = ContinuousClock.now
      let request = ServerRequest(
        method: head.method.rawValue, target: head.uri, fields: fields, body: body(of: head))
      let response =
        if let refusal = Self.checked(head) { refusal } else { await responder.respond(to: request) }
      let isLast = !head.isKeepAlive || !parts.isRequestOver
      try await write(response, to: head, isLast: isLast)
      requestLog?.notice("\(head.method) \(head.uri) \(response.status) \(ContinuousClock.now - start)")
      return !isLast
    }

    private func body(of head: HTTPRequestHead) -> MessageBody {
      guard !parts.isRequestOver else { return .none }
      return .stream(
        byteCount: head.headers.first(name: "content-length").flatMap { Int64($0) }, RequestBodyPieces(parts: parts))
    }

    /// What HTTP/1.1 itself demands of a request (RFC 9112, 3.2; RFC 9110, 10.1.1).
    private static func checked(_ head: HTTPRequestHead) -> ServerResponse? {
      guard [.http1_1, .http1_0].contains(head.version) else {
        return ServerResponse.line(505, "this server speaks HTTP/1.1")
      }
      if head.version == .http1_1, !head.headers.contains(name: "host") {
        return ServerResponse.line(400, "the request has no Host field")
      }
      let expectations = head.headers[canonicalForm: "expect"]
      if expectations.contains(where: { $0.lowercased() != "100-continue" }) {
        return ServerResponse.line(417, "the only expectation that is met is 100-continue")
      }
      return nil
    }

    private func write(_ response: ServerResponse, to head: HTTPRequestHead, isLast: Bool) async throws {
      var headers = HTTPHeaders()
      headers.reserveCapacity(response.fields.all.count + 3)
      headers.add(name: "Date", value: HTTPDate.text(responder.now))
      for field in response.fields.all { headers.add(name: field.name, value: field.value) }
      // These two have no length: none follows them (RFC 9110, 8.6).
      if response.status != 204, response.status != 304, let byteCount = response.body.byteCount {
        headers.add(name: "Content-Length", value: "\(byteCount)")
      }
      var isLast = isLast
      // Without chunks, the end of the body is the end of the connection.
      if response.body.byteCount == nil, head.version == .http1_0 { isLast = true }
      if isLast {
        headers.add(name: "Connection", value: "close")
      } else if head.version == .http1_0 {
        headers.add(name: "Connection", value: "keep-alive")
      }
      let answer = HTTPResponseHead(
        version: head.version, status: HTTPResponseStatus(statusCode: response.status), headers: headers)
      switch response.body {
      case .none, .omitted:
        try await outbound.write(contentsOf: [.head(answer), .end(nil)])
      case .bytes(let data):
        try await outbound.write(contentsOf: [.head(answer), .body(.byteBuffer(buffer(data))), .end(nil)])
      case .stream(_, let pieces):
        try await outbound.write(.head(answer))
        // What breaks off is not ended, and so is seen not to be whole.
        for try await piece in pieces { try await outbound.write(.body(.byteBuffer(buffer(piece)))) }
        try await outbound.write(.end(nil))
      }
    }

    private func buffer(_ data: Data) -> ByteBuffer {
      var buffer = allocator.buffer(capacity: data.count)
      buffer.writeBytes(data)
      return buffer
    }

    private func refuse(_ error: HTTPParserError) async throws {
      let isTooLarge = error == .headerOverflow
      let response = ServerResponse.line(
        isTooLarge ? 431 : 400,
        isTooLarge ? "the fields of the request are too large" : "this is no request of HTTP/1.1")
      let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/")
      try await write(response, to: head, isLast: true)
    }

    /// Reads on for a while, though the answer was given.
    ///
    /// A connection that is closed with bytes unread is reset, and the client may lose the answer.
    private func skipBody() async throws {
      guard !parts.isRequestOver, !parts.isBodyHeldBack else { return }
      var skipped = 0
      while skipped < Self.mostSkippedBytes, let piece = try await parts.nextPiece() { skipped += piece.readableBytes }
    }
  }
#endif
