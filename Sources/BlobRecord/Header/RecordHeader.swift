internal import CBlobRecord

/// The header of a sound record: Spec/RecordFormat.md as a value.
///
/// Fields hold what is stored, the reserved ones too, so that a header read and written again changes nothing but
/// what was set. Magic, header size and crc are not fields: they are what makes a header sound, and `encoded` writes
/// them.
public struct RecordHeader: Hashable, Sendable {
  /// How many locks hold the record; above zero it outlives its expiry.
  public var refCount: UInt32
  /// Seconds to live after `updateTime`; 0 means the store's default expiration.
  ///
  /// That one is counted from the last access.
  public var ttl: UInt64
  /// Unix seconds of the last store, or (with ttl 0 only) of the last access.
  public var updateTime: UInt64
  /// Bytes of the payload, which follows the header.
  public var payloadSize: UInt64
  public var flags: RecordFlags
  public var reserved1: UInt32
  public var reserved2: UInt64
  public var reserved3: UInt32
  public var reserved4: UInt32

  public init(
    refCount: UInt32 = 0, ttl: UInt64 = 0, updateTime: UInt64, payloadSize: UInt64, flags: RecordFlags = [],
    reserved1: UInt32 = 0, reserved2: UInt64 = 0, reserved3: UInt32 = 0, reserved4: UInt32 = 0
  ) {
    self.refCount = refCount
    self.ttl = ttl
    self.updateTime = updateTime
    self.payloadSize = payloadSize
    self.flags = flags
    self.reserved1 = reserved1
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
  /// How many of them the crc covers: all before itself.
  static let checkedByteCount = 60

  public var isLocked: Bool { refCount > 0 }

  /// The payload's CRC-32, where the record carries one.
  public var payloadChecksum: UInt32? {
    get { flags.contains(.payloadChecksum) ? reserved3 : nil }
    set {
      if newValue == nil { flags.remove(.payloadChecksum) } else { flags.insert(.payloadChecksum) }
      reserved3 = newValue ?? 0
    }
  }

  /// The digest of the file name, where the record carries one.
  public var keyDigest: UInt64? {
    get { flags.contains(.keyDigest) ? reserved2 : nil }
    set {
      if newValue == nil { flags.remove(.keyDigest) } else { flags.insert(.keyDigest) }
      reserved2 = newValue ?? 0
    }
  }

  /// Where the record's extension ends, in bytes behind the payload; nil of a record without one.
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
  /// The update time, held at `Int64.max` where the stored value is above.
  public var lastUpdate: UnixTime { UnixTime(seconds: Int64(clamping: updateTime)) }

  /// The last second in which the record is live unless it is locked.
  public func expiry(defaultExpiration: Int64) -> UnixTime {
    lastUpdate.advanced(bySeconds: ttl > 0 ? Int64(clamping: ttl) : defaultExpiration)
  }

  /// Whether more than the time to live has passed since the update.
  ///
  /// An update time in the future has not expired.
  public func isExpired(at now: UnixTime, defaultExpiration: Int64) -> Bool {
    now > expiry(defaultExpiration: defaultExpiration)
  }

  /// Seconds that an update time may lie ahead of now without being wrong: a day.
  ///
  /// A clock that shows local time for UTC is off by 14 hours at most, and comes right by itself. So do two such clocks
  /// that share a directory.
  public static let clockTolerance: Int64 = 86_400

  /// Whether the update time is more than `clockTolerance` ahead of `now`.
  public func isStampedAhead(of now: UnixTime) -> Bool {
    lastUpdate > now.advanced(bySeconds: Self.clockTolerance)
  }

  /// Not expired, or locked.
  public func isLive(at now: UnixTime, defaultExpiration: Int64) -> Bool {
    isLocked || !isExpired(at: now, defaultExpiration: defaultExpiration)
  }
}

// MARK: - Coding

extension RecordHeader {
  /// Decodes the first 64 bytes.
  ///
  /// - Throws: the first broken rule, in the order of Spec/RecordFormat.md.
  public init(decoding bytes: RawSpan) throws(RecordError) {
    self = try StoredHeader(decoding: bytes).validated()
  }

  /// Calls `body` with the 64 bytes of the header, crc included, on the stack.
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

  /// The crc that the encoded header carries.
  public var crc: UInt32 {
    withEncodedBytes { bytes in unsafe bytes.unsafeLoadUnaligned(fromByteOffset: Self.checkedByteCount, as: UInt32.self)
    }
  }
}
