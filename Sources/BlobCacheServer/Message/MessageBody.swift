/// The body of a request or a response.
public enum MessageBody: Sendable {
  /// No body, and nothing of its framing. A PUT without a body and without `Content-Length` is answered with 411.
  case none
  case bytes(Data)
  /// Pieces that are created or received on demand.
  ///
  /// An error ends the sequence and means that the body is incomplete. `byteCount` is `nil` if it is unknown before the
  /// end. The sequence can be iterated only once.
  case stream(byteCount: Int64?, any AsyncSequence<Data, any Error> & Sendable)
  /// Bytes of an open file.
  case file(FilePart)
  /// An omitted body, as in a response to HEAD, with its size if it is known.
  case omitted(byteCount: Int64?)

  /// The size in bytes, or `nil` if it is unknown.
  public var byteCount: Int64? {
    switch self {
    case .none: 0
    case .bytes(let data): Int64(data.count)
    case .stream(let byteCount, _): byteCount
    case .file(let part): part.byteCount
    case .omitted(let byteCount): byteCount
    }
  }
}

extension MessageBody {
  static func text(_ text: String) -> MessageBody { .bytes(Data(text.utf8)) }
}

extension MessageBody {
  func collected(atMost limit: Int) async throws -> Data? {
    if let byteCount, byteCount > Int64(limit) { return nil }
    switch self {
    case .none, .omitted, .file: return Data()
    case .bytes(let data): return data
    case .stream(_, let pieces):
      var data = Data()
      for try await piece in pieces {
        data.append(piece)
        guard data.count <= limit else { return nil }
      }
      return data
    }
  }
}

/// The end of a request body before it was complete, because its sender disconnected or violated the protocol.
public struct BodyBrokenOff: Error {
  public init() {}
}
