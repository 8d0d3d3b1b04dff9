public import BlobRecord

extension RecordHeader {
  public init(decoding bytes: [UInt8]) throws(RecordError) {
    try self.init(decoding: bytes.span.bytes)
  }

  /// The 64 bytes of the header, including its checksum.
  public var encodedBytes: [UInt8] {
    withEncodedBytes { bytes in bytes.withUnsafeBytes { Array($0) } }
  }

  /// Returns the first rule that a file with this header violates, or `nil` if it is sound.
  public func breach(_ facts: RecordFacts = RecordFacts(), payload: [UInt8]? = nil) -> RecordError? {
    RecordJudge().judge(encodedBytes, facts, payload: payload).breach
  }
}

extension RecordJudge {
  /// - Parameter payload: The bytes after the header, if they were read.
  public func judge(
    _ start: [UInt8], _ facts: RecordFacts = RecordFacts(), payload: [UInt8]? = nil
  ) -> RecordVerdict {
    guard let payload else { return judge(start.span.bytes, facts) }
    var facts = facts
    facts.bodyByteCount = Int64(payload.count)
    return judge(start.span.bytes, facts, body: payload.span.bytes)
  }
}

extension RecordVerdict {
  /// The first violated rule.
  public var breach: RecordError? {
    if case .broken(let error, _) = self { error } else { nil }
  }
}

extension StoredHeader {
  public init(decoding bytes: [UInt8]) throws(RecordError) {
    try self.init(decoding: bytes.span.bytes)
  }
}

extension CRC32 {
  public static func checksum(of bytes: [UInt8]) -> UInt32 {
    checksum(of: bytes.span.bytes)
  }
}

/// Writes a header field in its stored format, little-endian.
public func put(_ value: some FixedWidthInteger, at offset: Int, in bytes: inout [UInt8]) {
  withUnsafeBytes(of: value.littleEndian) { bytes.replaceSubrange(offset..<offset + $0.count, with: $0) }
}

/// Updates the checksum of a header that was changed.
public func sealHeader(_ bytes: inout [UInt8]) {
  put(CRC32.checksum(of: Array(bytes[..<60])), at: 60, in: &bytes)
}
