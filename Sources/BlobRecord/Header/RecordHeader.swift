internal import CBlobRecord

/// The header of a sound record: Spec/RecordFormat.md.
///
/// All stored fields are preserved, including the reserved ones, so reading and writing a header changes only the
/// fields that were set. `withEncodedBytes` writes the magic number, the header size and the CRC, which are not fields.
public struct RecordHeader: Hashable, Sendable {
  /// The number of locks on the record; a locked record does not expire.
  public var refCount: UInt32
  /// The time to live after `updateTime` in seconds, or 0 for the default expiration after the last access.
  public var ttl: UInt64
  /// The time of the last store, or of the last access if `ttl` is 0, in Unix seconds.
  public var updateTime: UInt64
  /// The size of the payload, which follows the header, in bytes.
  public var payloadSize: UInt64
  public var flags: RecordFlags
  public var reserved1: UInt32
  public var reserved2: UInt64
  public var reserved3: UInt32
  public var reserved4: UInt32

  public init(
    refCount: UInt32 = 0, ttl: UInt64 = 0, updateTime: UInt64, payloadSize: UInt64, flags: RecordFlags = [],
    reserved2: UInt64 = 0, reserved3: UInt32 = 0, reserved4: UInt32 = 0
  ) {
    self.refCount = refCount
    self.ttl = ttl
    self.updateTime = updateTime
    self.payloadSize = payloadSize
    self.flags = flags
    reserved1 = 0
    self.reserved2 = reserved2
    self.reserved3 = reserved3
    self.reserved4 = reserved4
  }
}

extension RecordHeader {
  /// The bytes `SPTF` as a little-endian integer.
  public static let magic: UInt32 = blob_record_magic
  /// The size of every header, in bytes.
  public static let byteCount = 64
  /// The number of bytes that the CRC covers: all bytes before the CRC itself.
  static let checkedByteCount = 60

  public var isLocked: Bool { refCount > 0 }

  /// The CRC-32 of the payload, or `nil` if the record has no payload checksum.
  public var payloadChecksum: UInt32? {
    get { flags.contains(.payloadChecksum) ? reserved3 : nil }
    set {
      if newValue == nil { flags.remove(.payloadChecksum) } else { flags.insert(.payloadChecksum) }
      reserved3 = newValue ?? 0
    }
  }

  /// The digest of the file name, or `nil` if the record has no key digest.
  public var keyDigest: UInt64? {
    get { flags.contains(.keyDigest) ? reserved2 : nil }
    set {
      if newValue == nil { flags.remove(.keyDigest) } else { flags.insert(.keyDigest) }
      reserved2 = newValue ?? 0
    }
  }

  /// The end of the extension in bytes after the payload, or `nil` if the record has no extension.
  public var extensionEnd: UInt32? {
    get { flags.contains(.hasExtension) ? reserved4 : nil }
    set {
      if newValue == nil { flags.remove(.hasExtension) } else { flags.insert(.hasExtension) }
      reserved4 = newValue ?? 0
    }
  }
}

// MARK: - Time

extension RecordHeader {
  /// The update time, clamped to `Int64.max`.
  public var lastUpdate: UnixTime { UnixTime(seconds: Int64(clamping: updateTime)) }

  /// Returns the last second in which the record is live unless it is locked.
  public func expiry(defaultExpiration: Int64) -> UnixTime {
    lastUpdate.advanced(bySeconds: ttl > 0 ? Int64(clamping: ttl) : defaultExpiration)
  }

  /// Returns a Boolean value that indicates whether the time to live has passed since the update.
  ///
  /// A record with an update time in the future has not expired.
  public func isExpired(at now: UnixTime, defaultExpiration: Int64) -> Bool {
    now > expiry(defaultExpiration: defaultExpiration)
  }

  /// The number of seconds that an update time may be in the future without being considered wrong: a day.
  ///
  /// A clock that shows local time as UTC is off by 14 hours at most, and is usually corrected soon.
  public static let clockTolerance: Int64 = 86_400

  /// Returns a Boolean value that indicates whether the update time is more than `clockTolerance` after `now`.
  public func isStampedAhead(of now: UnixTime) -> Bool {
    lastUpdate > now.advanced(bySeconds: Self.clockTolerance)
  }

  /// Returns a Boolean value that indicates whether the record is locked or has not expired.
  public func isLive(at now: UnixTime, defaultExpiration: Int64) -> Bool {
    isLocked || !isExpired(at: now, defaultExpiration: defaultExpiration)
  }
}

// MARK: - Coding

extension RecordHeader {
  /// Decodes the first 64 bytes of a record.
  ///
  /// - Throws: The error of the first broken rule, in the order of Spec/RecordFormat.md.
  public init(decoding bytes: RawSpan) throws(RecordError) {
    self = try StoredHeader(decoding: bytes).validated()
  }

  /// Calls `body` with the 64 bytes of the header, including the CRC, on the stack.
  public func withEncodedBytes<Result: ~Copyable, Failure: Error>(
    _ body: (RawSpan) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    var stored = blob_record_header(
      magic: Self.magic, header_size: UInt32(Self.byteCount), ref_count: refCount, reserved1: reserved1, ttl: ttl,
      update_time: updateTime, payload_size: payloadSize, reserved2: reserved2, reserved3: reserved3,
      reserved4: reserved4, flags: flags.rawValue, crc: 0)
    stored.crc = unsafe withUnsafeBytes(of: stored) { buffer in
      CRC32.checksum(of: unsafe buffer.bytes.extracting(first: Self.checkedByteCount))
    }
    return try unsafe withUnsafeBytes(of: stored) { buffer throws(Failure) in try body(unsafe buffer.bytes) }
  }

  /// The CRC of the encoded header.
  public var crc: UInt32 {
    withEncodedBytes { bytes in unsafe bytes.unsafeLoadUnaligned(fromByteOffset: Self.checkedByteCount, as: UInt32.self)
    }
  }
}
