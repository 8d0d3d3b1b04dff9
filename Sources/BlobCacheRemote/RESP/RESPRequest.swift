#if Remote
  internal import NIOCore

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
#endif
