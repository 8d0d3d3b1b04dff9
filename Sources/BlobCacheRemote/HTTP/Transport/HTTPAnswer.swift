#if Remote
  internal import AsyncHTTPClient
  internal import BlobCache
  internal import BlobRecord
  internal import NIOCore
  internal import NIOFoundationCompat
  internal import NIOHTTP1

  /// A response whose body may still be in transfer. The connection returns to the pool after the end of the body.
  struct HTTPAnswer: Sendable {
    private let response: HTTPClientResponse
    private let transport: HTTPTransport
    private let upload: Upload?
    /// The body, if it has been read.
    private var kept: Data?

    init(_ response: HTTPClientResponse, from transport: HTTPTransport, to upload: Upload?) {
      self.response = response
      self.transport = transport
      self.upload = upload
    }

    var status: Int { Int(response.status.code) }
    var statusLine: String { "\(response.status.code) \(response.status.reasonPhrase.prefix(200))" }

    func field(_ name: String) -> String? { response.headers.first(name: name) }

    /// The pieces of the object end with an error if the body is incomplete.
    var object: RemoteObject {
      var object = RemoteObject(
        byteCount: field("Content-Length").flatMap { Int64($0) },
        pieces: ReceivedPieces(body: response.body, transport: transport))
      object.modified = field("Last-Modified").flatMap(HTTPDate.time)
      return object
    }

    /// Reads at most a prefix of the body, discards the rest, and returns the answer with that prefix as its body.
    func keptInMemory(upTo limit: Int) async throws -> Self {
      var answer = self
      answer.kept = try await bytes(upTo: limit)
      return answer
    }

    /// Reads at most a prefix of the body, and discards the rest.
    func bytes(upTo limit: Int) async throws -> Data {
      if let kept { return kept.prefix(limit) }
      defer { upload?.close() }
      var bytes = Data()
      do {
        for try await piece in response.body {
          let rest = limit - bytes.count
          bytes.append(contentsOf: piece.readableBytesView.prefix(rest))
          // A body that ends exactly at the limit is read to its end, which preserves the connection.
          if piece.readableBytes > rest { break }
        }
      } catch {
        throw transport.failure(error)
      }
      return bytes
    }

    /// Discards the body, so that its connection returns to the pool.
    func finish() async throws { _ = try await bytes(upTo: 1 << 16) }

    /// The requested pause from `Retry-After`, in seconds or until a time of the server's clock.
    var retryAfter: Duration? {
      guard let text = field("Retry-After")?.trimmed else { return nil }
      let end = HTTPDate.time(text)?.seconds
      let rest = end.flatMap { end in field("Date").flatMap(HTTPDate.time).map { end - $0.seconds } }
      return (rest ?? Int64(text)).map { .seconds(min(max($0, 0), 86_400)) }
    }
  }

  private struct ReceivedPieces: AsyncSequence, Sendable {
    typealias Element = Data
    typealias Failure = any Error

    let body: HTTPClientResponse.Body
    let transport: HTTPTransport

    func makeAsyncIterator() -> Iterator { Iterator(body: body.makeAsyncIterator(), transport: transport) }

    struct Iterator: AsyncIteratorProtocol {
      fileprivate var body: HTTPClientResponse.Body.AsyncIterator
      fileprivate let transport: HTTPTransport

      mutating func next() async throws -> Data? {
        do {
          guard let buffer = try await body.next() else {
            // The body of a cancelled request may end without an error.
            try Task.checkCancellation()
            return nil
          }
          return Data(buffer: buffer, byteTransferStrategy: .noCopy)
        } catch {
          throw transport.failure(error)
        }
      }
    }
  }
#endif
