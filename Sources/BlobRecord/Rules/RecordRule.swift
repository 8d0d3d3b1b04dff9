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
  /// 103: the file is as long as the header says. Behind an extension, it may have room for another.
  case payloadSize
  /// 108: the payload has the checksum in the header, where there is one.
  case payloadChecksum
  /// 109: the file has the name in the header, where there is one.
  case keyDigest
  /// 112: the extension is whole, where there is one.
  case wholeExtension

  /// The last rule that the 64 bytes of the header answer by themselves.
  static let lastOfHeader = RecordRule.knownFlags
}

extension RecordRule {
  /// How a record breaks this rule; nil if it follows it, or the facts do not tell.
  ///
  /// - Parameter body: the bytes behind the header.
  package func breach(by header: StoredHeader, _ facts: RecordFacts, _ body: RawSpan? = nil) -> RecordError? {
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
      guard let found = facts.bodyByteCount, !header.fits(bodyByteCount: found) else { return nil }
      return .wrongPayloadSize(stated: header.payloadSize, found: found)
    case .payloadChecksum:
      guard header.flags.contains(.payloadChecksum),
        let computed = facts.payloadCRC ?? Self.checksum(of: body, by: header), computed != header.reserved3
      else { return nil }
      return .payloadChecksumMismatch(stated: header.reserved3, computed: computed)
    case .keyDigest:
      guard header.flags.contains(.keyDigest), let expected = facts.nameDigest, expected != header.reserved2 else {
        return nil
      }
      return .keyMismatch(stated: header.reserved2, expected: expected)
    case .wholeExtension:
      guard header.flags.contains(.hasExtension),
        let isWhole = facts.hasWholeExtension ?? Self.isWholeExtension(in: body, by: header), !isWhole
      else { return nil }
      return .invalidExtension
    }
  }

  private static func checksum(of body: RawSpan?, by header: StoredHeader) -> UInt32? {
    guard let body else { return nil }
    return CRC32.checksum(of: body.extracting(header.payloadRange(ofBody: body.byteCount)))
  }

  private static func isWholeExtension(in body: RawSpan?, by header: StoredHeader) -> Bool? {
    guard let body, let range = header.tailRange(ofBody: body.byteCount) else { return nil }
    // Whether it is whole is all that the rule tells.
    return (try? RecordExtension(decoding: body.extracting(range))) != nil
  }

  /// The first rule that a record breaks, from this one to `last`.
  func firstBreach(
    through last: RecordRule, by header: StoredHeader, _ facts: RecordFacts, _ body: RawSpan? = nil
  ) -> RecordError? {
    for number in rawValue...last.rawValue {
      if let breach = RecordRule(rawValue: number)?.breach(by: header, facts, body) { return breach }
    }
    return nil
  }
}

/// The known facts of a record file besides its header. Rules about what is nil are passed over.
public struct RecordFacts: Hashable, Sendable {
  /// How many bytes the file has behind its header.
  public var bodyByteCount: Int64?
  /// The CRC-32 of the payload among them.
  public var payloadCRC: UInt32?
  /// `NameDigest` of the file's name.
  public var nameDigest: UInt64?
  /// Whether the extension was read and is whole.
  public var hasWholeExtension: Bool?

  public init(
    bodyByteCount: Int64? = nil, payloadCRC: UInt32? = nil, nameDigest: UInt64? = nil, hasWholeExtension: Bool? = nil
  ) {
    self.bodyByteCount = bodyByteCount
    self.payloadCRC = payloadCRC
    self.nameDigest = nameDigest
    self.hasWholeExtension = hasWholeExtension
  }

  /// - Parameters:
  ///   - fileSize: bytes of the whole file, header included.
  ///   - payloadCRC: the CRC-32 of the payload.
  ///   - nameDigest: `NameDigest` of the file's name.
  public init(fileSize: Int64, payloadCRC: UInt32? = nil, nameDigest: UInt64? = nil) {
    self.init(bodyByteCount: fileSize - Int64(RecordHeader.byteCount), payloadCRC: payloadCRC, nameDigest: nameDigest)
  }
}
