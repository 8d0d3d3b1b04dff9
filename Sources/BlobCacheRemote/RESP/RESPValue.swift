#if Remote
  internal import NIOCore

  /// A value of RESP, the protocol of Redis and Valkey, in its versions 2 and 3.
  enum RESPValue: Hashable, Sendable {
    case simple(String)
    case error(String)
    case integer(Int64)
    case bulk(ByteBuffer)
    case null
    case boolean(Bool)
    /// A set too, and a map as keys and values in turn.
    case array([RESPValue])
    /// What the server sends without a request.
    case push([RESPValue])
  }

  extension RESPValue {
    /// The text of a value that has one.
    var text: String? {
      switch self {
      case .simple(let text): text
      case .bulk(let bytes): String(buffer: bytes)
      default: nil
      }
    }

    var integer: Int64? {
      if case .integer(let number) = self { number } else { nil }
    }

    var elements: [RESPValue]? {
      switch self {
      case .array(let elements), .push(let elements): elements
      default: nil
      }
    }
  }
#endif
