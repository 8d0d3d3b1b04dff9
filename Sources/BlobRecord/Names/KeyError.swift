/// Why a key has no file name under a naming.
public enum KeyError: Error, Hashable, Sendable {
  case empty
  /// The file name would be `byteCount` bytes long; file systems take `RecordNaming.maximumFileNameBytes`, and the record
  /// cannot keep the key.
  case tooLong(byteCount: Int)
  /// The key has more bytes than a record can keep, which is `RecordExtension.maximumKeyByteCount`.
  case longerThanKept(byteCount: Int)
  /// The key has a byte that `verbatim` cannot carry.
  ///
  /// `byte` is a `/`, a NUL or a leading `.`.
  case notVerbatim(byte: UInt8)
  /// Records without flags do not keep their keys, so a prefix cannot be looked up among SHA-256 file names.
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
