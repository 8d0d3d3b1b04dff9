#if Server
  internal import BlobRecord
  internal import Logging
  internal import NIOCore
  internal import NIOHTTP1

  struct Conversation {
    private let directories: ServedDirectories
    private let channel: any Channel
    private let keeper: NIOLoopBound<ConnectionKeeper>
    private let hasPlace: Bool
    private let sendsFiles: Bool
    private let parts: RequestParts
    private let outbound: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>
    private let allocator = ByteBufferAllocator()
    private let requestLog: Logger?
    private let peerUser: UInt32?
    private let headerBytes: Int

    /// The unit in which the system sends a file from an aligned offset.
    private static let packetBytes = 64 << 10

    /// The time that a client has to close its side after the last response.
    private static let farewell: TimeAmount = .seconds(5)

    init(
      _ directories: ServedDirectories, _ connection: ConnectionChannel.Value,
      _ inbound: NIOAsyncChannelInboundStream<HTTPServerRequestPart>,
      _ outbound: NIOAsyncChannelOutboundWriter<HTTPServerResponsePart>, _ requestLog: Logger?,
      _ peerUser: UInt32?, headerBytes: Int
    ) {
      self.headerBytes = headerBytes
      self.peerUser = peerUser
      self.requestLog = requestLog
      self.directories = directories
      channel = connection.channel
      keeper = connection.keeper
      hasPlace = connection.hasPlace
      sendsFiles = connection.sendsFiles
      parts = RequestParts(inbound, outbound)
      self.outbound = outbound
    }

    func run() async throws {
      do {
        while let head = try await parts.nextHead() {
          guard try await answer(head) else { break }
        }
      } catch let error as HTTPParserError {
        // The beginning of the next request is unknown.
        try await refuse(error)
      }
      try await end()
    }

    /// Ends the connection. An immediate close would fail pending writes and, with unread bytes, reset it, so that the
    /// client could lose the last response. Therefore the remaining bytes are read for a limited time.
    private func end() async throws {
      try await channel.eventLoop.flatSubmit { [keeper] in keeper.value.whenAllIsTaken() }.get()
      outbound.finish()
      let close = channel.eventLoop.scheduleTask(in: Self.farewell) { [channel] in channel.close(promise: nil) }
      defer { close.cancel() }
      try await parts.skipAll()
    }

    /// - Returns: A Boolean value that indicates whether another request may follow.
    private func answer(_ head: HTTPRequestHead) async throws -> Bool {
      var fields = HeaderFields()
      fields.reserveCapacity(head.headers.count)
      var fieldBytes = 0
      for (name, value) in head.headers {
        fields.append(name, value)
        fieldBytes += name.utf8.count + value.utf8.count
      }
      let start = ContinuousClock.now
      var request = ServerRequest(
        method: head.method.rawValue, target: head.uri, fields: fields, body: body(of: head))
      request.peerUser = peerUser
      request.peer = channel.remoteAddress?.peer
      let refusal = fieldBytes > headerBytes ? Self.tooLarge : Self.checked(head) ?? checkedPlace(head)
      let response = if let refusal { refusal } else { await directories.respond(to: request) }
      let isLast =
        !head.isKeepAlive || !parts.isRequestOver || refusal != nil || !hasPlace || Self.leavesProtocol(head)
      try await write(response, to: head, isLast: isLast)
      requestLog?.notice(
        "\(head.method) \(LoggedTarget.text(head.uri)) \(response.status) \(ContinuousClock.now - start)")
      return !isLast
    }

    private func body(of head: HTTPRequestHead) -> MessageBody {
      guard !parts.isRequestOver else { return .none }
      // The decoder accepts lengths beyond the maximum size of a file.
      let byteCount = head.headers.first(name: "content-length").flatMap { UInt64($0) }
      return .stream(byteCount: byteCount.map { Int64(clamping: $0) }, RequestBodyPieces(parts: parts))
    }

    /// Returns whether the client requests another protocol, as which the decoder treats the following bytes.
    private static func leavesProtocol(_ head: HTTPRequestHead) -> Bool {
      head.method == .CONNECT
        || head.headers[canonicalForm: "connection"].contains { $0.lowercased() == "upgrade" }
    }

    private static var tooLarge: ServerResponse {
      ServerResponse.line(431, "the target or the fields of the request are too large")
    }

    private func checkedPlace(_ head: HTTPRequestHead) -> ServerResponse? {
      guard !hasPlace, !["/healthz", "/readyz"].contains(head.uri.prefix { $0 != "?" }) else { return nil }
      return Refusal(503, "too many connections are open", fields: ["Retry-After": "1"]).response
    }

    /// Checks the requirements of HTTP/1.1 (RFC 9112, 3.2; RFC 9110, 10.1.1).
    private static func checked(_ head: HTTPRequestHead) -> ServerResponse? {
      guard [.http1_1, .http1_0].contains(head.version) else {
        return ServerResponse.line(505, "this server speaks HTTP/1.1")
      }
      if head.version == .http1_1, !head.headers.contains(name: "host") {
        return ServerResponse.line(400, "the request has no Host field")
      }
      if let refusal = checkedCoding(head) { return refusal }
      guard head.version == .http1_1 else { return nil }
      let expectations = head.headers[canonicalForm: "expect"]
      if expectations.contains(where: { $0.lowercased() != "100-continue" }) {
        return ServerResponse.line(417, "the only expectation that is met is 100-continue")
      }
      return nil
    }

    /// Checks that the body is chunked or has no transfer coding (RFC 9112, 6.1).
    private static func checkedCoding(_ head: HTTPRequestHead) -> ServerResponse? {
      let codings = head.headers[canonicalForm: "transfer-encoding"]
      guard !codings.isEmpty else { return nil }
      guard head.version == .http1_1 else { return ServerResponse.line(400, "HTTP/1.0 has no transfer codings") }
      guard codings.count == 1, codings[0].lowercased() == "chunked" else {
        return ServerResponse.line(501, "the only transfer coding that is taken is chunked")
      }
      return nil
    }

    private func write(_ response: ServerResponse, to head: HTTPRequestHead, isLast: Bool) async throws {
      var response = response
      if head.version == .http1_0, head.method != .HEAD, case .stream(nil, _) = response.body {
        // In HTTP/1.0, the end of the connection ends the body, so an incomplete body would appear complete.
        response =
          Refusal(
            503, "the blob is still being written, and HTTP/1.0 cannot tell its end", fields: ["Retry-After": "1"]
          ).response
      }
      var headers = HTTPHeaders()
      headers.reserveCapacity(response.fields.all.count + 3)
      headers.add(name: "Date", value: HTTPDate.text(directories.first.now))
      for field in response.fields.all { headers.add(name: field.name, value: field.value) }
      // Responses with these two statuses must not have a body length (RFC 9110, 8.6).
      if response.status != 204, response.status != 304 {
        if let byteCount = response.body.byteCount {
          headers.add(name: "Content-Length", value: "\(byteCount)")
        } else if head.version != .http1_0, head.method != .HEAD {
          headers.add(name: "Transfer-Encoding", value: "chunked")
        }
      }
      if isLast {
        headers.add(name: "Connection", value: "close")
      } else if head.version == .http1_0 {
        headers.add(name: "Connection", value: "keep-alive")
      }
      let answer = HTTPResponseHead(
        version: head.version, status: HTTPResponseStatus(statusCode: response.status), headers: headers)
      // Refusals have a body for any method, but a client would parse a body after HEAD as the next response.
      switch head.method == .HEAD ? response.withoutBody.body : response.body {
      case .none, .omitted:
        try await outbound.write(contentsOf: [.head(answer), .end(nil)])
      case .bytes(let data):
        try await outbound.write(contentsOf: [.head(answer), .body(.byteBuffer(buffer(data))), .end(nil)])
      case .stream(_, let pieces): try await write(pieces, behind: answer)
      case .file(let part):
        guard sendsFiles else { return try await write(part.pieces, behind: answer) }
        try await send(part, behind: answer)
      }
    }

    private func write(
      _ pieces: any AsyncSequence<Data, any Error> & Sendable, behind answer: HTTPResponseHead
    ) async throws {
      try await outbound.write(.head(answer))
      // After an error, the end is not written, so that the client detects the incomplete body.
      for try await piece in pieces { try await outbound.write(.body(.byteBuffer(buffer(piece)))) }
      try await outbound.write(.end(nil))
    }

    /// Sends the first bytes with the head, up to a packet boundary, which halves the number of packets.
    private func send(_ part: FilePart, behind answer: HTTPResponseHead) async throws {
      var head: HTTPResponseHead? = answer
      for try await stretch in part {
        var rest = stretch
        if let answer = head.take() {
          let count = min(stretch.count, Self.packetBytes - Int(stretch.lowerBound) % Self.packetBytes)
          var first = allocator.buffer(capacity: count)
          try unsafe first.writeWithUnsafeMutableBytes(minimumWritableBytes: count) { memory in
            var bytes = unsafe MutableRawSpan(_unsafeBytes: UnsafeMutableRawBufferPointer(rebasing: memory[..<count]))
            try part.read(at: stretch.lowerBound, into: &bytes)
            return count
          }
          rest = stretch.lowerBound + Int64(count)..<stretch.upperBound
          try await outbound.write(contentsOf: [.head(answer), .body(.byteBuffer(first))])
        }
        if !rest.isEmpty { try await send(rest, of: part) }
      }
      // An empty payload has no ranges, and its head is still unsent.
      if let head { try await outbound.write(.head(head)) }
      try await outbound.write(.end(nil))
    }

    /// Returns after the system has accepted all bytes.
    private func send(_ stretch: Range<Int64>, of part: FilePart) async throws {
      let handle = part.withDescriptor { NIOFileHandle(_deprecatedTakingOwnershipOfDescriptor: $0) }
      // The file part closes the descriptor.
      defer { withExtendedLifetime(part) { _ = try? handle.takeDescriptorOwnership() } }
      let region = FileRegion(
        fileHandle: handle, readerIndex: Int(stretch.lowerBound), endIndex: Int(stretch.upperBound))
      try await withTaskCancellationHandler {
        try await channel.writeAndFlush(HTTPServerResponsePart.body(.fileRegion(region)))
      } onCancel: {
        // Otherwise the client would determine how long this takes.
        channel.close(promise: nil)
      }
    }

    private func buffer(_ data: Data) -> ByteBuffer {
      var buffer = allocator.buffer(capacity: data.count)
      buffer.writeBytes(data)
      return buffer
    }

    private func refuse(_ error: HTTPParserError) async throws {
      let response =
        switch error {
        case .headerOverflow: Self.tooLarge
        // The decoder has a list of methods.
        case .invalidMethod: ServerResponse.line(501, "the method of the request is not known here")
        default: ServerResponse.line(400, "this is no request of HTTP/1.1")
        }
      let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/")
      try await write(response, to: head, isLast: true)
    }
  }
#endif
