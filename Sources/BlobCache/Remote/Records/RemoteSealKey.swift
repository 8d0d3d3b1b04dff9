/// A key that machines share, by which they know each other's records in a remote engine.
///
/// A checksum finds accidents. Whoever may write to the engine could still make a record with a right one; a seal needs
/// the key. It is told in no message.
public struct RemoteSealKey: Sendable {
  let bytes: [UInt8]

  /// - Parameter bytes: secret and random, 16 or more.
  /// - Returns: nil for fewer.
  public init?(_ bytes: some Sequence<UInt8>) {
    self.bytes = Array(bytes)
    guard self.bytes.count >= 16 else { return nil }
  }
}

extension RemoteSealKey: Equatable {}

extension RemoteSealKey: CustomStringConvertible, CustomReflectable {
  public var description: String { "a key of \(bytes.count) bytes" }
  public var customMirror: Mirror { Mirror(self, children: [:]) }
}
