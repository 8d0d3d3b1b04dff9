/// The rules of a sound record file, in the order of Spec/RecordFormat.md 4.
///
/// The order of the cases is significant: a file that breaks several rules is reported with the first. The rule
/// `writableByOthers` is not included, because permissions are checked when the file is opened.
public enum RecordRule: UInt8, CaseIterable, Sendable {
  /// 105: the file has a complete header.
  case wholeHeader
  /// 100: the header begins with the magic number of the format.
  case magic
  /// 104: the checksum of the header is correct.
  case headerCRC
  /// 102: the header size is the size of this version.
  case headerSize
  /// 110: all flags that are set are known to this version.
  case knownFlags
  /// 106: the payload is complete. This rule and the later ones are not checked for an expired record.
  case complete
  /// 103: the file size matches the header. After an extension, there may be room for another one.
  case payloadSize
  /// 108: the payload checksum is correct, if the header contains one.
  case payloadChecksum
  /// 109: the file name matches the digest, if the header contains one.
  case keyDigest
  /// 112: the extension is complete, if the record has one.
  case wholeExtension

  /// The last rule that can be checked with only the 64 bytes of the header.
  static let lastOfHeader = RecordRule.knownFlags
}

extension RecordRule {
  /// Returns the error if the record breaks this rule, or `nil` if it does not or the facts are insufficient.
  package func breach(by header: StoredHeader, _ facts: RecordFacts, _ body: RawSpan? = nil) -> RecordError? {
    switch self {
    case .wholeHeader:
      // A `StoredHeader` is always complete.
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
    // The rule has one error, so the reason is ignored.
    return (try? RecordExtension(decoding: body.extracting(range))) != nil
  }

  func firstBreach(
    through last: RecordRule, by header: StoredHeader, _ facts: RecordFacts, _ body: RawSpan? = nil
  ) -> RecordError? {
    for number in rawValue...last.rawValue {
      if let breach = RecordRule(rawValue: number)?.breach(by: header, facts, body) { return breach }
    }
    return nil
  }
}

/// The known facts of a record file; rules that need an unknown fact (`nil`) are skipped.
public struct RecordFacts: Hashable, Sendable {
  /// The number of bytes after the header.
  public var bodyByteCount: Int64?
  /// The CRC-32 of the payload.
  public var payloadCRC: UInt32?
  /// The `NameDigest` of the file's name.
  public var nameDigest: UInt64?
  /// A Boolean value that indicates whether the extension is complete, or `nil` if it was not read.
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
  ///   - fileSize: The size of the whole file in bytes, including the header.
  ///   - payloadCRC: The CRC-32 of the payload.
  ///   - nameDigest: The `NameDigest` of the file's name.
  public init(fileSize: Int64, payloadCRC: UInt32? = nil, nameDigest: UInt64? = nil) {
    self.init(bodyByteCount: fileSize - Int64(RecordHeader.byteCount), payloadCRC: payloadCRC, nameDigest: nameDigest)
  }
}
