internal import CBlobRecord

/// The decoded fields of a header before their validation by `validated()`.
public struct StoredHeader: Hashable, Sendable {
  public var magic: UInt32
  public var headerSize: UInt32
  public var refCount: UInt32
  public var reserved1: UInt32
  public var ttl: UInt64
  public var updateTime: UInt64
  public var payloadSize: UInt64
  public var reserved2: UInt64
  public var reserved3: UInt32
  public var reserved4: UInt32
  public var flags: RecordFlags
  public var crc: UInt32
  /// The computed CRC-32 of bytes 0 to 59, which equals `crc` in a sound header.
  public var computedCRC: UInt32

  /// Decodes the fields from the first 64 bytes.
  ///
  /// - Throws: `RecordError.notEnoughDataToGetHeader` if there are fewer than 64 bytes.
  public init(decoding bytes: RawSpan) throws(RecordError) {
    guard bytes.byteCount >= RecordHeader.byteCount else {
      throw .notEnoughDataToGetHeader(byteCount: Int64(bytes.byteCount))
    }
    let stored = unsafe bytes.unsafeLoadUnaligned(as: blob_record_header.self)
    magic = stored.magic
    headerSize = stored.header_size
    refCount = stored.ref_count
    reserved1 = stored.reserved1
    ttl = stored.ttl
    updateTime = stored.update_time
    payloadSize = stored.payload_size
    reserved2 = stored.reserved2
    reserved3 = stored.reserved3
    reserved4 = stored.reserved4
    flags = RecordFlags(rawValue: stored.flags)
    crc = stored.crc
    computedCRC = CRC32.checksum(of: bytes.extracting(first: RecordHeader.checkedByteCount))
  }

  package init(_ header: RecordHeader) {
    magic = RecordHeader.magic
    headerSize = UInt32(RecordHeader.byteCount)
    refCount = header.refCount
    reserved1 = header.reserved1
    ttl = header.ttl
    updateTime = header.updateTime
    payloadSize = header.payloadSize
    reserved2 = header.reserved2
    reserved3 = header.reserved3
    reserved4 = header.reserved4
    flags = header.flags
    crc = header.crc
    computedCRC = crc
  }

  /// Returns the header if all header rules hold: magic, CRC, header size, flags.
  ///
  /// - Throws: The error of the first broken rule, in the order of Spec/RecordFormat.md.
  public func validated() throws(RecordError) -> RecordHeader {
    if let breach = RecordRule.wholeHeader.firstBreach(through: .lastOfHeader, by: self, RecordFacts()) { throw breach }
    return fields
  }

  /// The header, without validation, for bytes that are known to be sound.
  package var fields: RecordHeader {
    var header = RecordHeader(
      refCount: refCount, ttl: ttl, updateTime: updateTime, payloadSize: payloadSize, flags: flags,
      reserved2: reserved2, reserved3: reserved3, reserved4: reserved4)
    header.reserved1 = reserved1
    return header
  }
}

// MARK: - The bytes behind the header

extension StoredHeader {
  /// Checks the number of bytes after the header; after an extension, there may be room for a new one.
  func fits(bodyByteCount: Int64) -> Bool {
    guard let found = UInt64(exactly: bodyByteCount) else { return false }
    guard flags.contains(.hasExtension) else { return found == payloadSize }
    let (end, overflows) = payloadSize.addingReportingOverflow(UInt64(reserved4))
    return !overflows && reserved4 >= UInt32(RecordExtension.footerByteCount) && found >= end
      && found - payloadSize <= UInt64(RecordExtension.maximumTailByteCount)
  }

  package func payloadRange(ofBody byteCount: Int) -> Range<Int> {
    flags.contains(.hasExtension) ? 0..<min(Int(clamping: payloadSize), byteCount) : 0..<byteCount
  }

  /// Returns the range from the payload to the end of the extension, or `nil` without a complete extension.
  package func tailRange(ofBody byteCount: Int) -> Range<Int>? {
    guard flags.contains(.hasExtension), let start = Int(exactly: payloadSize), start <= byteCount - Int(reserved4)
    else { return nil }
    return start..<(start + Int(reserved4))
  }
}

/// The `flags` field of the header.
public struct RecordFlags: OptionSet, Hashable, Sendable {
  public var rawValue: UInt32

  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  /// The payload is still being streamed; declared by SPTPersistentCache, but never set there.
  public static let streamIncomplete = RecordFlags(rawValue: 0x1)
  /// `reserved3` contains the CRC-32 of the payload.
  public static let payloadChecksum = RecordFlags(rawValue: 0x2)
  /// `reserved2` contains the `NameDigest` of the file name.
  public static let keyDigest = RecordFlags(rawValue: 0x4)

  /// A `RecordExtension` follows the payload and ends `reserved4` bytes after it.
  public static let hasExtension = RecordFlags(rawValue: 0x8)

  /// All flags that this version supports; a record with any other flag was written by a later version.
  public static let known: RecordFlags = [.streamIncomplete, .payloadChecksum, .keyDigest, .hasExtension]
}

extension RecordFlags: CustomStringConvertible {
  /// The names of the flags that are set, such as `payloadChecksum, keyDigest`, or `none`.
  public var description: String {
    let named: [(RecordFlags, String)] = [
      (.streamIncomplete, "streamIncomplete"), (.payloadChecksum, "payloadChecksum"), (.keyDigest, "keyDigest"),
      (.hasExtension, "extension"),
    ]
    var names = named.filter { contains($0.0) }.map(\.1)
    let unknown = subtracting(.known)
    if !unknown.isEmpty { names.append("unknown 0x\(String(unknown.rawValue, radix: 16))") }
    return names.isEmpty ? "none" : names.joined(separator: ", ")
  }
}
