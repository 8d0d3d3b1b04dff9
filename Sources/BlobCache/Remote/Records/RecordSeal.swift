internal import BlobRecord

/// The seal after a record in a remote engine: `BCSEAL01`, and the HMAC-SHA256 of the object's name and the record.
///
/// Source: RFC 2104, section 2.
struct RecordSeal: Sendable {
  static let byteCount = letters.count + SHA256Digest.byteCount
  private static let letters = Array("BCSEAL01".utf8)
  private static let blockByteCount = 64

  private var inner = SHA256Hasher()
  private var outer = SHA256Hasher()

  init(_ key: RemoteSealKey, of name: RemoteName) {
    var block = key.bytes
    if block.count > Self.blockByteCount {
      var hasher = SHA256Hasher()
      hasher.update(unsafe block.span.bytes)
      block = hasher.finalize()
    }
    block += Array(repeating: 0, count: Self.blockByteCount - block.count)
    let (first, second) = (block.map { $0 ^ 0x36 }, block.map { $0 ^ 0x5C })
    inner.update(unsafe first.span.bytes)
    outer.update(unsafe second.span.bytes)
    // The name is included, so that no record can be moved to another key. No name contains the final zero byte.
    let start = Array(name.string.utf8) + [0]
    inner.update(unsafe start.span.bytes)
  }

  mutating func update(_ bytes: RawSpan) { inner.update(bytes) }

  var bytes: Data {
    var outer = outer
    let digest = inner.finalize()
    outer.update(unsafe digest.span.bytes)
    return Data(Self.letters + outer.finalize())
  }

  /// Compares bytes with the seal, in a time that does not depend on the number of matching bytes.
  func matches(_ stated: Data) -> Bool {
    let own = bytes
    guard stated.count == own.count else { return false }
    return zip(stated, own).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }
}

/// A secret key by which machines authenticate each other's records in a remote engine.
///
/// A checksum detects accidental damage, but any writer can compute one. A seal requires the key, which no message
/// contains.
public struct RemoteSealKey: Sendable {
  let bytes: [UInt8]

  /// Creates a key.
  ///
  /// - Parameter bytes: Secret and random bytes, at least 16.
  /// - Returns: The key, or `nil` if there are fewer bytes.
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
