internal import CBlobRecord

/// The sixty-four bytes of a header taken apart, and nothing believed of them yet.
///
/// `RecordHeader` is what they make once `validated()` has found no broken rule.
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
  /// The CRC-32 of bytes 0 to 59 as they were read, which `crc` should equal.
  public var computedCRC: UInt32

  /// Takes the first 64 bytes apart.
  ///
  /// - Throws: `RecordError.notEnoughDataToGetHeader` if there are fewer.
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

  /// The bytes that a header is written as.
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

  /// The header these bytes make.
  ///
  /// - Throws: the first broken rule, in the order of Spec/RecordFormat.md: magic, crc, header size, flags.
  public func validated() throws(RecordError) -> RecordHeader {
    if let breach = RecordRule.wholeHeader.firstBreach(through: .lastOfHeader, by: self, RecordFacts()) { throw breach }
    return fields
  }

  /// The header of bytes that were found to be sound before.
  package var fields: RecordHeader {
    RecordHeader(
      refCount: refCount, ttl: ttl, updateTime: updateTime, payloadSize: payloadSize, flags: flags,
      reserved1: reserved1, reserved2: reserved2, reserved3: reserved3, reserved4: reserved4)
  }
}

// MARK: - The bytes behind the header

extension StoredHeader {
  /// Whether so many bytes behind the header are what the header says.
  ///
  /// A record without an extension has its payload and no more. With one, as much may follow as a new extension beside
  /// the old one takes.
  func fits(bodyByteCount: Int64) -> Bool {
    guard let found = UInt64(exactly: bodyByteCount) else { return false }
    guard flags.contains(.hasExtension) else { return found == payloadSize }
    let (end, overflows) = payloadSize.addingReportingOverflow(UInt64(reserved4))
    return !overflows && reserved4 >= UInt32(RecordExtension.footerByteCount) && found >= end
      && found - payloadSize <= UInt64(RecordExtension.maximumTailByteCount)
  }

  /// Where the payload lies among the bytes behind the header, of which there are `byteCount`.
  package func payloadRange(ofBody byteCount: Int) -> Range<Int> {
    flags.contains(.hasExtension) ? 0..<min(Int(clamping: payloadSize), byteCount) : 0..<byteCount
  }

  /// What lies between the payload and the extension's end; nil if there is no extension, or not all of it.
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

  /// SPTPersistentCache's: the payload is still being streamed. Declared there, set by nothing.
  public static let streamIncomplete = RecordFlags(rawValue: 0x1)
  /// `reserved3` holds the CRC-32 of the payload.
  public static let payloadChecksum = RecordFlags(rawValue: 0x2)
  /// `reserved2` holds the `NameDigest` of the file name.
  public static let keyDigest = RecordFlags(rawValue: 0x4)

  /// A `RecordExtension` lies behind the payload, and ends `reserved4` bytes behind it.
  public static let hasExtension = RecordFlags(rawValue: 0x8)

  /// Every flag this version understands; a record with another is a later version's.
  public static let known: RecordFlags = [.streamIncomplete, .payloadChecksum, .keyDigest, .hasExtension]
}

extension RecordFlags: CustomStringConvertible {
  /// The names of the flags that are set, such as `payloadChecksum, keyDigest`; `none` without any.
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
