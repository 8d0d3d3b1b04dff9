package import BlobRecord

/// The header of a record in a pack, which stores a record file's 64-byte header and a sequence in 40 bytes.
///
/// Any record whose header has the form that stores write can be packed, and its file header can be restored.
package struct PackedHeader: Hashable, Sendable {
  /// The record's position among all packed records, below 2^56. A key's newest record has its highest sequence.
  package let sequence: UInt64
  package let nameByteCount: UInt8
  package let payloadByteCount: UInt16
  /// The size of the extension after the payload, or 0 without an extension.
  package let extensionByteCount: UInt16
  package let payloadChecksum: UInt32
  /// The time to live in seconds, as in `RecordHeader`.
  package let ttl: UInt64
  /// In Unix seconds.
  package let updateTime: UInt64
  package var refCount: UInt32
}

extension PackedHeader {
  /// The bytes `PREC` as a little-endian integer.
  static let mark: UInt32 = 0x4345_5250
  static let timeBitCount: UInt64 = 40
  static let timeMask: UInt64 = 1 << timeBitCount - 1
  static let sequenceBitCount: UInt64 = 56
  static let sequenceMask: UInt64 = 1 << sequenceBitCount - 1
  /// The stored form of a ttl of `Int64.max`, which means that a blob never expires.
  static let storedNever: UInt64 = timeMask
  static let never = UInt64(Int64.max)
  /// The flags that stores set, apart from the extension's flag, which only some records have.
  static let requiredFlags: RecordFlags = [.payloadChecksum, .keyDigest]

  static func flags(hasExtension: Bool) -> RecordFlags {
    hasExtension ? requiredFlags.union(.hasExtension) : requiredFlags
  }

  /// Creates the packed form of a header, or returns `nil` if the record has to stay a file. The extension has to
  /// consist of all bytes after the payload.
  package init?(_ header: RecordHeader, nameDigest: UInt64, nameByteCount: Int, sequence: UInt64) {
    let tail = Int(header.reserved4)
    guard header.flags == Self.flags(hasExtension: tail > 0), tail == 0 || tail >= RecordExtension.footerByteCount,
      header.reserved1 == 0, header.reserved2 == nameDigest, header.updateTime <= Self.timeMask,
      header.ttl < Self.storedNever || header.ttl == Self.never, sequence <= Self.sequenceMask,
      let payload = Int(exactly: header.payloadSize),
      PackLayout.recordByteCount(name: nameByteCount, payload: payload, tail: tail) != nil
    else { return nil }
    self.sequence = sequence
    self.nameByteCount = UInt8(truncatingIfNeeded: nameByteCount)
    payloadByteCount = UInt16(truncatingIfNeeded: payload)
    extensionByteCount = UInt16(truncatingIfNeeded: tail)
    payloadChecksum = header.reserved3
    ttl = header.ttl
    updateTime = header.updateTime
    refCount = header.refCount
  }

  /// Returns the header of the record as a file, with the digest of its file name, which a pack does not store.
  package func recordHeader(nameDigest: UInt64) -> RecordHeader {
    RecordHeader(
      refCount: refCount, ttl: ttl, updateTime: updateTime, payloadSize: UInt64(payloadByteCount),
      flags: Self.flags(hasExtension: extensionByteCount > 0), reserved2: nameDigest, reserved3: payloadChecksum,
      reserved4: UInt32(extensionByteCount))
  }
}

// MARK: - Ranges of the parts

extension PackedHeader {
  var contentByteCount: Int { extensionRange.upperBound }

  /// The size of the record in its chunk: at least 64.
  package var byteCount: Int { max(contentByteCount, PackLayout.smallestRecordByteCount) }

  // The ranges are relative to the beginning of the record.
  package var nameRange: Range<Int> {
    let start = PackLayout.recordHeaderByteCount
    return start..<(start + Int(nameByteCount))
  }

  package var payloadRange: Range<Int> {
    let start = nameRange.upperBound
    return start..<(start + Int(payloadByteCount))
  }

  /// The range of payload and extension, which follow the header in a record file.
  package var bodyRange: Range<Int> { payloadRange.lowerBound..<extensionRange.upperBound }

  package var extensionRange: Range<Int> {
    let start = payloadRange.upperBound
    return start..<(start + Int(extensionByteCount))
  }
}

extension PackedHeader {
  enum Field {
    static let crc = 0
    static let payloadChecksum = 4
    /// The sequence, and the size of the name in the highest byte.
    static let sequence = 8
    /// The update time, the size of the payload, and the flags in the highest byte.
    static let update = 16
    /// The ttl, the size of the extension, and 0 in the highest byte.
    static let life = 24
    static let refCount = 32
    static let mark = 36
    /// The CRC covers all following bytes of the header, and the name.
    static let firstChecked = 4
  }

  private static let sizeShift = timeBitCount
  private static let highestByteShift: UInt64 = 56

  /// Writes header and name to the first bytes of a record, for its address and the salt of the address's quarter.
  package func encode(name: RawSpan, at address: PackAddress, salt: UInt32, into bytes: inout MutableRawSpan) {
    precondition(name.byteCount == Int(nameByteCount))
    let nameRange = nameRange
    unsafe bytes.withUnsafeMutableBytes { memory in
      unsafe name.withUnsafeBytes { name in
        unsafe UnsafeMutableRawBufferPointer(rebasing: memory[nameRange]).copyMemory(from: name)
      }
    }
    let storedTTL = ttl == Self.never ? Self.storedNever : ttl
    let flags = UInt64(Self.flags(hasExtension: extensionByteCount > 0).rawValue)
    bytes.storeBytes(of: payloadChecksum.littleEndian, toByteOffset: Field.payloadChecksum, as: UInt32.self)
    let first = sequence | UInt64(nameByteCount) << Self.highestByteShift
    bytes.storeBytes(of: first.littleEndian, toByteOffset: Field.sequence, as: UInt64.self)
    let second = updateTime | UInt64(payloadByteCount) << Self.sizeShift | flags << Self.highestByteShift
    bytes.storeBytes(of: second.littleEndian, toByteOffset: Field.update, as: UInt64.self)
    let third = storedTTL | UInt64(extensionByteCount) << Self.sizeShift
    bytes.storeBytes(of: third.littleEndian, toByteOffset: Field.life, as: UInt64.self)
    bytes.storeBytes(of: refCount.littleEndian, toByteOffset: Field.refCount, as: UInt32.self)
    bytes.storeBytes(of: Self.mark.littleEndian, toByteOffset: Field.mark, as: UInt32.self)
    let crc = Self.checksum(of: bytes.bytes, through: nameRange.upperBound, at: address, salt: salt)
    bytes.storeBytes(of: crc.littleEndian, toByteOffset: Field.crc, as: UInt32.self)
  }

  /// Decodes the header of a record, or returns `nil` if no valid record begins at the address.
  ///
  /// The record does not exceed its chunk, but may exceed `bytes`. Compare `byteCount` before accessing a part of it.
  /// The bytes have to include header and name.
  ///
  /// - Complexity: O(*n*) for *n* bytes of header and name. The CRC is computed only for plausible headers.
  package init?(decoding bytes: RawSpan, at address: PackAddress, salt: UInt32) {
    guard bytes.byteCount > PackLayout.recordHeaderByteCount,
      Self.word(of: bytes, at: Field.mark, as: UInt32.self) == Self.mark, address.canHoldRecord
    else { return nil }
    let first = Self.word(of: bytes, at: Field.sequence, as: UInt64.self)
    let second = Self.word(of: bytes, at: Field.update, as: UInt64.self)
    let third = Self.word(of: bytes, at: Field.life, as: UInt64.self)
    sequence = first & Self.sequenceMask
    nameByteCount = UInt8(truncatingIfNeeded: first >> Self.highestByteShift)
    updateTime = second & Self.timeMask
    payloadByteCount = UInt16(truncatingIfNeeded: second >> Self.sizeShift)
    let storedTTL = third & Self.timeMask
    ttl = storedTTL == Self.storedNever ? Self.never : storedTTL
    extensionByteCount = UInt16(truncatingIfNeeded: third >> Self.sizeShift)
    payloadChecksum = Self.word(of: bytes, at: Field.payloadChecksum, as: UInt32.self)
    refCount = Self.word(of: bytes, at: Field.refCount, as: UInt32.self)

    let flags = RecordFlags(rawValue: UInt32(truncatingIfNeeded: second >> Self.highestByteShift))
    guard nameByteCount > 0, third >> Self.highestByteShift == 0,
      flags == Self.flags(hasExtension: extensionByteCount > 0),
      extensionByteCount == 0 || Int(extensionByteCount) >= RecordExtension.footerByteCount,
      contentByteCount <= PackLayout.largestRecordByteCount, byteCount <= address.byteCountToChunkEnd,
      nameRange.upperBound <= bytes.byteCount
    else { return nil }
    let crc = Self.checksum(of: bytes, through: nameRange.upperBound, at: address, salt: salt)
    guard Self.word(of: bytes, at: Field.crc, as: UInt32.self) == crc else { return nil }
  }

  /// Returns the reason why bytes are not a valid record. The salt is `nil` if the quarter has no salt.
  package static func breach(of bytes: RawSpan, at address: PackAddress, salt: UInt32?) -> RecordError {
    guard bytes.byteCount > PackLayout.recordHeaderByteCount else {
      return .notEnoughDataToGetHeader(byteCount: Int64(bytes.byteCount))
    }
    let mark = word(of: bytes, at: Field.mark, as: UInt32.self)
    guard mark == Self.mark else { return .magicMismatch(found: mark) }
    let name = Int(word(of: bytes, at: Field.sequence, as: UInt64.self) >> highestByteShift)
    let end = min(PackLayout.recordHeaderByteCount + name, bytes.byteCount)
    return .invalidHeaderCRC(
      stated: word(of: bytes, at: Field.crc, as: UInt32.self),
      computed: checksum(of: bytes, through: end, at: address, salt: salt ?? 0))
  }

  /// Returns the range of the name according to a header that may be damaged, or `nil` if the range is invalid.
  package static func claimedNameRange(in bytes: RawSpan) -> Range<Int>? {
    guard bytes.byteCount > PackLayout.recordHeaderByteCount else { return nil }
    let count = Int(word(of: bytes, at: Field.sequence, as: UInt64.self) >> highestByteShift)
    let start = PackLayout.recordHeaderByteCount
    return count > 0 && start + count <= bytes.byteCount ? start..<(start + count) : nil
  }

  /// Returns whether bytes contain the complete record, with a payload that matches its checksum.
  package func isPayloadSound(in bytes: RawSpan) -> Bool {
    byteCount <= bytes.byteCount && CRC32.checksum(of: bytes.extracting(payloadRange)) == payloadChecksum
  }

  /// Returns the CRC of a header, which is valid only for its address and for this life of its chunk.
  private static func checksum(
    of bytes: RawSpan, through end: Int, at address: PackAddress, salt: UInt32
  ) -> UInt32 {
    var crc = CRC32()
    // Twelve bytes: the salt, followed by the address.
    let words = ((UInt64(salt) | address.rawValue << 32).littleEndian, (address.rawValue >> 32).littleEndian)
    unsafe withUnsafeBytes(of: words) { crc.update(unsafe $0.bytes.extracting(first: 12)) }
    crc.update(bytes.extracting(Field.firstChecked..<end))
    return crc.value
  }

  private static func word<Word: FixedWidthInteger & BitwiseCopyable>(
    of bytes: RawSpan, at offset: Int, as type: Word.Type
  ) -> Word {
    Word(littleEndian: unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: type))
  }
}
