#if Remote
  internal import NIOCore

  enum RESPValue: Hashable, Sendable {
    case simple(String)
    case error(String)
    case integer(Int64)
    case bulk(ByteBuffer)
    case null
    case boolean(Bool)
    /// A map is an array of alternating keys and values.
    case array([RESPValue])
    /// A message of the server that is not a reply.
    case push([RESPValue])
  }

  extension RESPValue {
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

  struct RESPCommand: Sendable {
    private(set) var bytes: ByteBuffer

    init(_ arguments: String...) { self.init(arguments) }

    init(_ arguments: [String]) {
      bytes = ByteBuffer()
      bytes.writeString("*\(arguments.count)\r\n")
      for argument in arguments { append(argument) }
    }

    /// - Complexity: O(*n*) for *n* bytes of the value, which are copied.
    init(_ first: [String], value: ByteBuffer, _ last: [String]) {
      bytes = ByteBuffer()
      bytes.reserveCapacity(value.readableBytes + 256)
      bytes.writeString("*\(first.count + 1 + last.count)\r\n")
      for argument in first { append(argument) }
      bytes.writeString("$\(value.readableBytes)\r\n")
      bytes.writeImmutableBuffer(value)
      bytes.writeString("\r\n")
      for argument in last { append(argument) }
    }

    private mutating func append(_ argument: String) {
      bytes.writeString("$\(argument.utf8.count)\r\n")
      bytes.writeString(argument)
      bytes.writeString("\r\n")
    }
  }

  /// Commands that are sent together. After a cancellation, their replies still arrive and are discarded.
  final class RESPRequest: Sendable {
    let bytes: ByteBuffer
    let replyCount: Int
    let outcome = Outcome<[RESPValue]>()

    init(_ commands: [RESPCommand]) {
      var bytes = commands[0].bytes
      for command in commands.dropFirst() { bytes.writeImmutableBuffer(command.bytes) }
      self.bytes = bytes
      replyCount = commands.count
    }

    var weight: Int { 1 + bytes.readableBytes >> 14 }
  }

  /// An error that a server sends without a request before it closes the connection, such as for too many clients.
  struct RESPErrorReply: Error {
    let text: String
  }
#endif
