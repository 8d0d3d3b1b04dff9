/// The name of a blob: any non-empty text, compared and hashed by its UTF-8 bytes.
///
/// Swift's `String` compares by canonical equivalence, so `"é"` and `"e\u{301}"` are equal strings. They are
/// different keys, because they are different file names.
public struct BlobKey: Sendable {
  /// The key as text, in contiguous UTF-8.
  public let string: String

  public init(_ string: String) {
    var string = string
    string.makeContiguousUTF8()
    self.string = string
  }

  /// Returns a Boolean value that indicates whether the bytes of the key begin with the bytes of the prefix.
  public func hasPrefix(_ prefix: String) -> Bool {
    string.utf8.starts(with: prefix.utf8)
  }
}

extension BlobKey: Hashable {
  public static func == (a: BlobKey, b: BlobKey) -> Bool {
    unsafe a.withBytes { first in unsafe b.withBytes { second in unsafe first.hasSameBytes(as: second) } }
  }

  public func hash(into hasher: inout Hasher) {
    unsafe withBytes { unsafe hasher.combine(bytes: $0) }
    hasher.combine(0xFF as UInt8)  // no UTF-8 byte: keeps a sequence of keys prefix-free
  }

  @inline(__always)
  private func withBytes<Result>(_ body: (UnsafeRawBufferPointer) -> Result) -> Result {
    let result = unsafe string.utf8.withContiguousStorageIfAvailable { unsafe body(UnsafeRawBufferPointer($0)) }
    guard let result else { preconditionFailure("a key's text is contiguous from its init on") }
    return result
  }
}

extension BlobKey: ExpressibleByStringInterpolation {
  // Disfavored, so that `keys.map(BlobKey.init)` refers to the initializer above.
  @_disfavoredOverload
  public init(stringLiteral value: String) {
    self.init(value)
  }
}

extension BlobKey: CustomStringConvertible {
  public var description: String { string }
}

/// The reason why a key has no file name under a naming.
public enum KeyError: Error, Hashable, Sendable {
  case empty
  /// The file name would exceed `RecordNaming.maximumFileNameBytes`, and the record cannot contain the key.
  case tooLong(byteCount: Int)
  /// The key is longer than `RecordExtension.maximumKeyByteCount`, the longest key that a record can contain.
  case longerThanKept(byteCount: Int)
  /// The key contains a byte that `verbatim` does not support: a `/`, a NUL or a leading `.`.
  case notVerbatim(byte: UInt8)
  /// Keys cannot be listed by prefix, because records without flags do not contain the keys of SHA-256 file names.
  case notListable
}

extension KeyError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .empty: "the key is empty, and a key has one character at least"
    case .tooLong(let byteCount):
      "the key needs a file name of \(byteCount) bytes, more than \(RecordNaming.maximumFileNameBytes); "
        + "the encoded naming with the checksummed format takes keys of up to \(RecordExtension.maximumKeyByteCount) bytes"
    case .longerThanKept(let byteCount):
      "the key has \(byteCount) bytes, and a record keeps one of at most \(RecordExtension.maximumKeyByteCount); "
        + "the sha256 naming takes longer ones, and does not list them"
    case .notVerbatim(let byte):
      "verbatim naming cannot carry the byte 0x\(String(byte, radix: 16, uppercase: true)) of this key; "
        + "the encoded naming can"
    case .notListable:
      "records of the reference format do not keep the keys of the sha256 naming, so there are no prefixes to look up"
    }
  }
}
