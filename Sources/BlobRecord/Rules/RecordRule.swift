/// The rules that a sound record file keeps, in the order of Spec/RecordFormat.md 4.
///
/// The declaration is the order: a file that breaks several rules is damaged by the first. `writableByOthers` is
/// missing here, because it is about a file's permissions, which are judged when the file is opened.
public enum RecordRule: UInt8, CaseIterable, Sendable {
  /// 105: the file has a whole header.
  case wholeHeader
  /// 100: the header begins with the format's magic number.
  case magic
  /// 104: the header has its own checksum.
  case headerCRC
  /// 102: the header is as long as this version's.
  case headerSize
  /// 110: no flag is set that this version does not know.
  case knownFlags
  /// 106: the payload is complete. From here on, the rules of a record that is expired are not asked.
  case complete
  /// 103: the file is as long as the header says.
  case payloadSize
  /// 108: the payload has the checksum in the header, where there is one.
  case payloadChecksum
  /// 109: the file has the name in the header, where there is one.
  case keyDigest

  /// The last rule that the 64 bytes of the header answer by themselves.
  static let lastOfHeader = RecordRule.knownFlags
}

extension RecordRule {
  /// How a record breaks this rule; nil if it follows it, or the facts do not tell.
  package func breach(by header: StoredHeader, _ facts: RecordFacts, _ payload: RawSpan? = nil) -> RecordError? {
    switch self {
    case .wholeHeader:
      // Fewer bytes make no `StoredHeader`.
      return nil
    case .magic:
      return header.magic == RecordHeader.magic ? nil : .magicMismatch(found: header.magic)
    case .headerCRC:
      return header.crc == header.computedCRC
        ? nil : .invalidHeaderCRC(stated: header.crc, computed: header.computedCRC)
    case .headerSize:
      return header.headerSize == UInt32(RecordHeader.byteCount) ? nil : .wrongHeaderSize(found: header.headerSize)
    case .knownFlags:
      return RecordFlags.known.isSuperset(of: header.flags) ? nil : .unsupportedFlags(header.flags)
    case .complete:
      return header.flags.contains(.streamIncomplete) ? .recordIsStreamAndBusy : nil
    case .payloadSize:
      guard let found = facts.payloadByteCount, UInt64(exactly: found) != header.payloadSize else { return nil }
      return .wrongPayloadSize(stated: header.payloadSize, found: found)
    case .payloadChecksum:
      guard header.flags.contains(.payloadChecksum),
        let computed = facts.payloadCRC ?? Self.checksum(of: payload), computed != header.reserved3
      else { return nil }
      return .payloadChecksumMismatch(stated: header.reserved3, computed: computed)
    case .keyDigest:
      guard header.flags.contains(.keyDigest), let expected = facts.nameDigest, expected != header.reserved2 else {
        return nil
      }
      return .keyMismatch(stated: header.reserved2, expected: expected)
    }
  }

  private static func checksum(of payload: RawSpan?) -> UInt32? {
    guard let payload else { return nil }
    return CRC32.checksum(of: payload)
  }

  /// The first rule that a record breaks, from this one to `last`.
  func firstBreach(
    through last: RecordRule, by header: StoredHeader, _ facts: RecordFacts, _ payload: RawSpan? = nil
  ) -> RecordError? {
    for number in rawValue...last.rawValue {
      if let breach = RecordRule(rawValue: number)?.breach(by: header, facts, payload) { return breach }
    }
    return nil
  }
}

/// The known facts of a record file besides its header. Rules about what is nil are passed over.
public struct RecordFacts: Hashable, Sendable {
  /// How many bytes the file has behind its header.
  public var payloadByteCount: Int64?
  /// The CRC-32 of these bytes.
  public var payloadCRC: UInt32?
  /// `NameDigest` of the file's name.
  public var nameDigest: UInt64?

  public init(payloadByteCount: Int64? = nil, payloadCRC: UInt32? = nil, nameDigest: UInt64? = nil) {
    self.payloadByteCount = payloadByteCount
    self.payloadCRC = payloadCRC
    self.nameDigest = nameDigest
  }

  /// - Parameters:
  ///   - fileSize: bytes of the whole file, header included.
  ///   - payloadCRC: the CRC-32 of the bytes behind the header.
  ///   - nameDigest: `NameDigest` of the file's name.
  public init(fileSize: Int64, payloadCRC: UInt32? = nil, nameDigest: UInt64? = nil) {
    self.init(
      payloadByteCount: fileSize - Int64(RecordHeader.byteCount), payloadCRC: payloadCRC, nameDigest: nameDigest)
  }
}
