package import BlobRecord

/// The header of a record in a pack: what a record file says in 64 bytes, in 40, and the record's sequence.
///
/// Any record whose header is as stores write it can be packed, and leaves a pack with the header it came with.
package struct PackedHeader: Hashable, Sendable {
  /// The number of the record among all that were ever packed: the highest one of a key is its newest. Below 2^56.
  package let sequence: UInt64
  /// 1 to 255.
  package let nameByteCount: UInt8
  package let payloadByteCount: UInt16
  /// The bytes of the extension behind the payload; 0 without one.
  package let extensionByteCount: UInt16
  package let payloadChecksum: UInt32
  /// Seconds to live, as `RecordHeader` has them.
  package let ttl: UInt64
  /// Unix seconds.
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
  /// In place of a ttl of `Int64.max`, which a blob has that never expires.
  static let storedNever: UInt64 = timeMask
  static let never = UInt64(Int64.max)
  /// What stores set, and the extension's, which some records have.
  static let requiredFlags: RecordFlags = [.payloadChecksum, .keyDigest]

  static func flags(hasExtension: Bool) -> RecordFlags {
    hasExtension ? requiredFlags.union(.hasExtension) : requiredFlags
  }

  /// The header that the record has in a pack; nil if it has to stay a file.
  ///
  /// - Parameters:
  ///   - header: of the record as a file. Its extension is taken to be all that is behind the payload.
  ///   - nameDigest: of the file name.
  ///   - nameByteCount: the bytes of the file name.
  ///   - sequence: below 2^56.
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

  /// The header of the record as a file.
  ///
  /// - Parameter nameDigest: of the file name, which a pack does not store.
  package func recordHeader(nameDigest: UInt64) -> RecordHeader {
    RecordHeader(
      refCount: refCount, ttl: ttl, updateTime: updateTime, payloadSize: UInt64(payloadByteCount),
      flags: Self.flags(hasExtension: extensionByteCount > 0), reserved2: nameDigest, reserved3: payloadChecksum,
      reserved4: UInt32(extensionByteCount))
  }
}

// MARK: - Where its parts lie

extension PackedHeader {
  /// The bytes of header, name, payload and extension.
  var contentByteCount: Int { extensionRange.upperBound }

  /// The bytes the record takes in its chunk: at least 64.
  package var byteCount: Int { max(contentByteCount, PackLayout.smallestRecordByteCount) }

  // In bytes from the record's begin.
  package var nameRange: Range<Int> {
    let start = PackLayout.recordHeaderByteCount
    return start..<(start + Int(nameByteCount))
  }

  package var payloadRange: Range<Int> {
    let start = nameRange.upperBound
    return start..<(start + Int(payloadByteCount))
  }

  /// Payload and extension: what a record file has behind its header.
  package var bodyRange: Range<Int> { payloadRange.lowerBound..<extensionRange.upperBound }

  package var extensionRange: Range<Int> {
    let start = payloadRange.upperBound
    return start..<(start + Int(extensionByteCount))
  }
}
