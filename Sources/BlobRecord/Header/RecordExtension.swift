/// The extension of a record, stored after the payload if flag 0x8 is set: Spec/RecordFormat.md 7.
///
/// It contains the key, if the key cannot be derived from the file name, and the extended data of the record. The
/// extension ends at `RecordHeader.extensionEnd` with a footer of sixteen bytes, and has its own checksum.
public struct RecordExtension: Hashable, Sendable {
  /// The key, or `nil` if the key can be derived from the file name.
  public var key: BlobKey?
  /// The extended data, at most `maximumDataByteCount` bytes.
  public var data: [UInt8]

  public init(key: BlobKey? = nil, data: [UInt8] = []) {
    self.key = key
    self.data = data
  }
}

extension RecordExtension {
  /// The maximum size of the extended data: 4 KiB.
  public static let maximumDataByteCount = 4096
  /// The maximum size of a stored key: 64 KiB of UTF-8.
  public static let maximumKeyByteCount = 65_536
  /// The bytes `SPTX` as a little-endian integer.
  static let magic: UInt32 = 0x5854_5053
  /// The size of the footer, which contains the sizes of key and data, the magic number and the CRC.
  public static let footerByteCount = 16
  /// The maximum number of bytes after a payload: three extensions.
  ///
  /// A new extension never overwrites the old one, which is valid until the header refers to the new one. The new
  /// extension is written before the old one if it fits there, otherwise after it.
  public static let maximumTailByteCount = 3 * (maximumKeyByteCount + maximumDataByteCount + footerByteCount)

  public var byteCount: Int { (key?.string.utf8.count ?? 0) + data.count + Self.footerByteCount }

  /// The key, the data and the footer as bytes.
  public var encoded: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(byteCount)
    bytes += key?.string.utf8 ?? "".utf8
    let keyByteCount = bytes.count
    bytes += data
    for number in [UInt32(keyByteCount), UInt32(data.count), Self.magic] { bytes.append(littleEndian: number) }
    bytes.append(littleEndian: unsafe CRC32.checksum(of: bytes.span.bytes))
    return bytes
  }

  /// Decodes the extension at the end of the given bytes.
  ///
  /// - Parameter bytes: The bytes after the payload, up to `RecordHeader.extensionEnd`.
  /// - Throws: `RecordError.invalidExtension`.
  public init(decoding bytes: RawSpan) throws(RecordError) {
    let end = bytes.byteCount
    guard end >= Self.footerByteCount else { throw .invalidExtension }
    func number(at offset: Int) -> UInt32 {
      UInt32(littleEndian: unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt32.self))
    }
    let (keyByteCount, dataByteCount) = (Int(number(at: end - 16)), Int(number(at: end - 12)))
    guard number(at: end - 8) == Self.magic, keyByteCount <= Self.maximumKeyByteCount,
      dataByteCount <= Self.maximumDataByteCount, keyByteCount + dataByteCount <= end - Self.footerByteCount
    else { throw .invalidExtension }
    let start = end - Self.footerByteCount - dataByteCount - keyByteCount
    guard CRC32.checksum(of: bytes.extracting(start..<(end - 4))) == number(at: end - 4) else {
      throw .invalidExtension
    }
    if keyByteCount > 0 {
      let text = bytes.extracting(start..<(start + keyByteCount)).array
      guard let text = String(validating: text, as: UTF8.self) else { throw .invalidExtension }
      key = BlobKey(text)
    }
    data = bytes.extracting((start + keyByteCount)..<(start + keyByteCount + dataByteCount)).array
  }
}

extension [UInt8] {
  fileprivate mutating func append(littleEndian number: UInt32) {
    for shift in stride(from: 0, through: 24, by: 8) { append(UInt8(truncatingIfNeeded: number >> UInt32(shift))) }
  }
}

extension RawSpan {
  fileprivate var array: [UInt8] { unsafe withUnsafeBytes { unsafe [UInt8]($0) } }
}
