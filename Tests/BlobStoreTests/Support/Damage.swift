import BlobRecord

/// Ways to damage a record with at least one byte of payload, named after the rule that is broken.
enum Damage: String, CaseIterable {
  case notEnoughDataToGetHeader, magicMismatch, invalidHeaderCRC, wrongHeaderSize, unsupportedFlags
  case abandonedStream, wrongPayloadSize, payloadChecksumMismatch, keyMismatch

  func inflict(on file: String, in cache: Cache) throws {
    var bytes = try cache.bytes(file)
    switch self {
    case .notEnoughDataToGetHeader: bytes.removeLast(bytes.count - 63)
    case .magicMismatch: bytes[0] ^= 1
    case .invalidHeaderCRC: bytes[20] ^= 1
    case .wrongHeaderSize:
      bytes[4] = 128
      let crc = Array(bytes[..<60]).withUnsafeBytes { CRC32.checksum(of: $0.bytes) }
      withUnsafeBytes(of: crc.littleEndian) { bytes.replaceSubrange(60..<64, with: $0) }
    case .unsupportedFlags: return try cache.changeHeader(file) { $0.flags.insert(RecordFlags(rawValue: 0x80)) }
    case .abandonedStream: return try cache.changeHeader(file) { $0.flags.insert(.streamIncomplete) }
    case .wrongPayloadSize: bytes.removeLast()
    case .payloadChecksumMismatch: bytes[64] ^= 1
    case .keyMismatch: return try cache.changeHeader(file) { $0.keyDigest = 1 }
    }
    try cache.write(bytes, to: file)
  }

  /// A Boolean value that indicates whether the header still contains the record's age.
  var leavesHeaderSound: Bool {
    switch self {
    case .notEnoughDataToGetHeader, .magicMismatch, .invalidHeaderCRC, .wrongHeaderSize, .unsupportedFlags: false
    case .abandonedStream, .wrongPayloadSize, .payloadChecksumMismatch, .keyMismatch: true
    }
  }

  /// A Boolean value that indicates whether the damage is detected in the first 64 bytes.
  var showsInHeader: Bool { self != .payloadChecksumMismatch }

  /// A Boolean value that indicates whether the record could be valid in a later version.
  var mayBeMeant: Bool {
    switch self {
    case .wrongHeaderSize, .unsupportedFlags: true
    default: false
    }
  }
}
