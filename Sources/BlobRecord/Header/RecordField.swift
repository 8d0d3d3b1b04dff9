/// A field of the header, with the name and the position of Spec/RecordFormat.md, in the order of the bytes.
public enum RecordField: String, CaseIterable, Sendable {
  case magic, headerSize, refCount, reserved1, ttl, updateTimeSec, payloadSizeBytes, reserved2, reserved3, reserved4
  case flags, crc

  /// The offset of the field in the file, in bytes.
  public var offset: Int {
    switch self {
    case .magic: 0
    case .headerSize: 4
    case .refCount: 8
    case .reserved1: 12
    case .ttl: 16
    case .updateTimeSec: 24
    case .payloadSizeBytes: 32
    case .reserved2: 40
    case .reserved3: 48
    case .reserved4: 52
    case .flags: 56
    case .crc: 60
    }
  }

  public var byteCount: Int {
    switch self {
    case .ttl, .updateTimeSec, .payloadSizeBytes, .reserved2: 8
    case .magic, .headerSize, .refCount, .reserved1, .reserved3, .reserved4, .flags, .crc: 4
    }
  }

  /// Returns the value of this field in a header.
  public func value(in header: StoredHeader) -> UInt64 {
    switch self {
    case .magic: UInt64(header.magic)
    case .headerSize: UInt64(header.headerSize)
    case .refCount: UInt64(header.refCount)
    case .reserved1: UInt64(header.reserved1)
    case .ttl: header.ttl
    case .updateTimeSec: header.updateTime
    case .payloadSizeBytes: header.payloadSize
    case .reserved2: header.reserved2
    case .reserved3: UInt64(header.reserved3)
    case .reserved4: UInt64(header.reserved4)
    case .flags: UInt64(header.flags.rawValue)
    case .crc: UInt64(header.crc)
    }
  }
}
