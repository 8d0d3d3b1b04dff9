/// What follows the header fields of a request or a response.
public enum MessageBody: Sendable {
  case none
  case bytes(Data)
  /// Pieces that are made, or arrive, as they are asked for. An error is the last, and means that the body is not whole.
  ///
  /// `byteCount` is nil where it is not known before the end. The sequence is walked once.
  case stream(byteCount: Int64?, any AsyncSequence<Data, any Error> & Sendable)
  /// Bytes that lie in an open file.
  case file(FilePart)
  /// A body that is left out, as in an answer to HEAD; its size is told where it is known.
  case omitted(byteCount: Int64?)

  /// Bytes, where that is known.
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
  /// The whole of a small body.
  ///
  /// - Returns: nil for one of more bytes, as soon as that shows.
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

/// The body of a request has ended before it was whole: its sender has gone, or does not keep to the protocol.
public struct BodyBrokenOff: Error {
  public init() {}
}
