/// What a record keeps behind its payload, where flag 0x8 announces it: Spec/RecordFormat.md 7.
///
/// It holds the key where the file name does not tell it, and the extended data that were stored beside the payload.
/// It ends where `RecordHeader.extensionEnd` says, with a footer of sixteen bytes, and has a checksum of its own.
public struct RecordExtension: Hashable, Sendable {
  /// nil where the file name tells the key.
  public var key: BlobKey?
  /// Empty for none; at most `maximumDataByteCount` bytes.
  public var data: [UInt8]

  public init(key: BlobKey? = nil, data: [UInt8] = []) {
    self.key = key
    self.data = data
  }
}

extension RecordExtension {
  /// The most extended data: 4 KiB.
  public static let maximumDataByteCount = 4096
  /// The longest key that is kept: 64 KiB of UTF-8.
  public static let maximumKeyByteCount = 65_536
  /// The bytes `SPTX` as a little-endian integer.
  static let magic: UInt32 = 0x5854_5053
  /// The sizes of key and data, the magic number and the crc.
  public static let footerByteCount = 16
  /// The most that a record may have behind its payload.
  ///
  /// It is three extensions. A new one is written beside the old one, which holds until the header names the new one. It
  /// lies before the old one where it fits in there, else behind it.
  public static let maximumTailByteCount = 3 * (maximumKeyByteCount + maximumDataByteCount + footerByteCount)

  public var byteCount: Int { (key?.string.utf8.count ?? 0) + data.count + Self.footerByteCount }

  /// Key, data and footer.
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

  /// Takes the extension that these bytes end with.
  ///
  /// - Parameter bytes: what lies behind the payload, up to `RecordHeader.extensionEnd`.
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
