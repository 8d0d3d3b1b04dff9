#if Remote
  internal import NIOCore

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
#endif
