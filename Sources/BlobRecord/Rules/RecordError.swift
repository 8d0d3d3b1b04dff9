/// The first rule of Spec/RecordFormat.md that a record file breaks.
///
/// SPTPersistentCache defines the codes up to 107; the later codes are specific to this format.
public enum RecordError: Error, Hashable, Sendable {
  case magicMismatch(found: UInt32)
  /// An error of SPTPersistentCache that never occurs here, because headers are read at any alignment.
  case headerAlignmentMismatch
  case wrongHeaderSize(found: UInt32)
  case wrongPayloadSize(stated: UInt64, found: Int64)
  case invalidHeaderCRC(stated: UInt32, computed: UInt32)
  case notEnoughDataToGetHeader(byteCount: Int64)
  case recordIsStreamAndBusy
  /// An error of SPTPersistentCache for a null header, which never occurs here.
  case internalInconsistency
  case payloadChecksumMismatch(stated: UInt32, computed: UInt32)
  case keyMismatch(stated: UInt64, expected: UInt64)
  case unsupportedFlags(RecordFlags)
  /// The file, not its bytes, breaks this rule: users without write access to the cache may write to it.
  case writableByOthers
  /// Flag 0x8 is set, but the bytes after the payload are not a complete extension.
  case invalidExtension
  /// The payload is incomplete, and no active writer has the file locked.
  case abandonedStream

  public var code: Int {
    switch self {
    case .magicMismatch: 100
    case .headerAlignmentMismatch: 101
    case .wrongHeaderSize: 102
    case .wrongPayloadSize: 103
    case .invalidHeaderCRC: 104
    case .notEnoughDataToGetHeader: 105
    case .recordIsStreamAndBusy: 106
    case .internalInconsistency: 107
    case .payloadChecksumMismatch: 108
    case .keyMismatch: 109
    case .unsupportedFlags: 110
    case .writableByOthers: 111
    case .invalidExtension: 112
    case .abandonedStream: 113
    }
  }

  /// The name of the error in the specification, without associated values.
  public var name: String {
    switch self {
    case .magicMismatch: "magicMismatch"
    case .headerAlignmentMismatch: "headerAlignmentMismatch"
    case .wrongHeaderSize: "wrongHeaderSize"
    case .wrongPayloadSize: "wrongPayloadSize"
    case .invalidHeaderCRC: "invalidHeaderCRC"
    case .notEnoughDataToGetHeader: "notEnoughDataToGetHeader"
    case .recordIsStreamAndBusy: "recordIsStreamAndBusy"
    case .internalInconsistency: "internalInconsistency"
    case .payloadChecksumMismatch: "payloadChecksumMismatch"
    case .keyMismatch: "keyMismatch"
    case .unsupportedFlags: "unsupportedFlags"
    case .writableByOthers: "writableByOthers"
    case .invalidExtension: "invalidExtension"
    case .abandonedStream: "abandonedStream"
    }
  }

  /// The offset of the broken field in bytes, or `nil` if no field is broken.
  public var offset: Int? {
    switch self {
    case .magicMismatch: 0
    case .wrongHeaderSize: 4
    case .wrongPayloadSize: 32
    case .keyMismatch: 40
    case .payloadChecksumMismatch: 48
    case .invalidExtension: 52
    case .recordIsStreamAndBusy, .abandonedStream, .unsupportedFlags: 56
    case .invalidHeaderCRC: 60
    case .notEnoughDataToGetHeader, .headerAlignmentMismatch, .internalInconsistency, .writableByOthers: nil
    }
  }
}

extension RecordError: CustomStringConvertible {
  public var description: String {
    func hex(_ value: some UnsignedInteger) -> String { "0x" + String(value, radix: 16, uppercase: true) }
    return switch self {
    case .magicMismatch(let found): "magicMismatch: \(hex(found)) where \(hex(RecordHeader.magic)) belongs"
    case .headerAlignmentMismatch: "headerAlignmentMismatch"
    case .wrongHeaderSize(let found): "wrongHeaderSize: \(found) where \(RecordHeader.byteCount) belongs"
    case .wrongPayloadSize(let stated, let found):
      "wrongPayloadSize: the header states \(stated) bytes, the file holds \(found)"
    case .invalidHeaderCRC(let stated, let computed):
      "invalidHeaderCRC: the header states \(hex(stated)), its bytes give \(hex(computed))"
    case .notEnoughDataToGetHeader(let byteCount):
      "notEnoughDataToGetHeader: \(byteCount) bytes, fewer than \(RecordHeader.byteCount)"
    case .recordIsStreamAndBusy: "recordIsStreamAndBusy: the payload is still being streamed"
    case .internalInconsistency: "internalInconsistency"
    case .payloadChecksumMismatch(let stated, let computed):
      "payloadChecksumMismatch: the header states \(hex(stated)), the payload gives \(hex(computed))"
    case .keyMismatch(let stated, let expected):
      "keyMismatch: the header states \(hex(stated)), the file's name gives \(hex(expected))"
    case .unsupportedFlags(let flags): "unsupportedFlags: \(flags)"
    case .writableByOthers: "writableByOthers: others may write to the file than may change the cache"
    case .invalidExtension: "invalidExtension: what lies behind the payload is no extension, or is damaged"
    case .abandonedStream: "abandonedStream: the payload is not complete, and its writer is gone"
    }
  }
}
