/// Why a key has no file name under a naming.
public enum KeyError: Error, Hashable, Sendable {
  case empty
  /// The file name would be `byteCount` bytes long; file systems take `RecordNaming.maximumFileNameBytes`.
  case tooLong(byteCount: Int)
  /// The key has a byte that `verbatim` cannot carry.
  ///
  /// `byte` is a `/`, a NUL or a leading `.`.
  case notVerbatim(byte: UInt8)
  /// A prefix of keys cannot be looked up among SHA-256 file names.
  case notListable
}

extension KeyError: CustomStringConvertible {
  public var description: String {
    switch self {
    case .empty: "the key is empty"
    case .tooLong(let byteCount):
      "the key needs a file name of \(byteCount) bytes, more than \(RecordNaming.maximumFileNameBytes); "
        + "the sha256 naming takes keys of any length"
    case .notVerbatim(let byte):
      "verbatim naming cannot carry the byte 0x\(String(byte, radix: 16, uppercase: true)) of this key; "
        + "the encoded naming can"
    case .notListable: "the sha256 naming does not tell keys from file names, so keys have no prefixes to look up"
    }
  }
}
