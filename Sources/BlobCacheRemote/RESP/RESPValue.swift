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

  /// A command and its arguments, as bytes to send.
  struct RESPCommand: Sendable {
    private(set) var bytes: ByteBuffer

    init(_ arguments: String...) { self.init(arguments) }

    init(_ arguments: [String]) {
      bytes = ByteBuffer()
      bytes.writeString("*\(arguments.count)\r\n")
      for argument in arguments { append(argument) }
    }

    /// A command with a value between its arguments.
    ///
    /// - Complexity: a copy of the value.
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

  /// Commands that go over a connection together, and the wait for their replies.
  ///
  /// A task that is cancelled waits no longer. The replies come all the same, and are skipped.
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

    /// How much the connection is busy with it, for a choice among connections.
    var weight: Int { 1 + bytes.readableBytes >> 14 }
  }

  /// An error that a server sends without a request, before it ends a connection: it has too many, or takes no strangers.
  struct RESPErrorReply: Error {
    let text: String
  }
#endif
