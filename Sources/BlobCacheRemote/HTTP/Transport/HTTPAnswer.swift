#if Remote
  internal import AsyncHTTPClient
  internal import BlobCache
  internal import BlobRecord
  internal import NIOCore
  internal import NIOFoundationCompat
  internal import NIOHTTP1

  /// An answer that has begun.
  ///
  /// Its connection is given back when its body is read to the end. It is closed if the answer is let go before.
  struct HTTPAnswer: Sendable {
    private let response: HTTPClientResponse
    private let transport: HTTPTransport
    /// What the request sends, which may go on for as long as its answer.
    private let upload: Upload?

    init(_ response: HTTPClientResponse, from transport: HTTPTransport, to upload: Upload?) {
      self.response = response
      self.transport = transport
      self.upload = upload
    }

    var status: Int { Int(response.status.code) }
    /// Such as `403 Forbidden`.
    var statusLine: String { "\(response.status.code) \(response.status.reasonPhrase.prefix(200))" }

    func field(_ name: String) -> String? { response.headers.first(name: name) }

    /// The body's bytes, which end with an error where some are missing.
    var object: RemoteObject {
      var object = RemoteObject(
        byteCount: field("Content-Length").flatMap { Int64($0) },
        pieces: ReceivedPieces(body: response.body, transport: transport))
      object.modified = field("Last-Modified").flatMap(HTTPDate.time)
      return object
    }

    /// The beginning of the body, or all of it.
    ///
    /// - Parameter limit: the bytes that are read at the most. What follows is let go.
    /// - Throws: `RemoteError`; `CancellationError`.
    func bytes(upTo limit: Int) async throws -> Data {
      defer { upload?.close() }
      var bytes = Data()
      do {
        for try await piece in response.body {
          let rest = limit - bytes.count
          bytes.append(contentsOf: piece.readableBytesView.prefix(rest))
          // A body that ends here is read to its end, and so keeps its connection.
          if piece.readableBytes > rest { break }
        }
      } catch {
        throw transport.failure(error)
      }
      return bytes
    }

    /// Reads a body that says nothing of interest, so that its connection is given back.
    func finish() async throws { _ = try await bytes(upTo: 1 << 16) }

    /// How long the server asks to be left alone, in seconds or until a time of its clock; nil if it does not say so.
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
            // A body that is cancelled may end without an error.
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
