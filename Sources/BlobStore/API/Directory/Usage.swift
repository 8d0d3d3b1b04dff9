extension BlobStore {
  /// What a directory holds. Bytes are logical: headers and payloads, not blocks.
  public struct Usage: Hashable, Sendable {
    /// Records with a sound header: live, locked and expired.
    public var records: Int64 = 0
    /// Their bytes, and those of damaged, quarantined and recycled files.
    public var bytes: Int64 = 0
    public var lockedRecords: Int64 = 0
    public var lockedBytes: Int64 = 0
    public var expiredRecords: Int64 = 0
    public var expiredBytes: Int64 = 0
    /// Those of the records that lie in packs, many to a file.
    public var packedRecords: Int64 = 0
    public var packedBytes: Int64 = 0
    /// The packs themselves.
    public var packs = PackUsage()
    public var damagedFiles: Int64 = 0
    public var damagedBytes: Int64 = 0
    public var quarantinedFiles: Int64 = 0
    public var quarantinedBytes: Int64 = 0
    /// The files of dead records that wait to be overwritten.
    public var recycledFiles: Int64 = 0
    public var recycledBytes: Int64 = 0
    /// Records in the making, those that are seen while they are written among them, and what writers that died have left.
    public var temporaryFiles: Int64 = 0
    /// Their bytes: in no other number.
    public var temporaryBytes: Int64 = 0
    /// Files that are not the cache's; their bytes count nowhere.
    public var foreignFiles: Int64 = 0
    /// Foreign files that are not records only because they are another user's.
    public var foreignRecords = ForeignRecords()
    /// Files and subdirectories that could not be read; not in the other numbers.
    public var unreadableFiles: Int64 = 0

    public init() {}

    mutating func add(_ state: RecordState, byteCount: Int64, isPacked: Bool) {
      guard state != .unreadable else {
        unreadableFiles += 1
        return
      }
      guard state != .streaming else {
        temporaryFiles += 1
        temporaryBytes.saturatingAdd(byteCount)
        return
      }
      bytes.saturatingAdd(byteCount)
      switch state {
      case .damaged:
        damagedFiles += 1
        damagedBytes.saturatingAdd(byteCount)
        return
      case .locked:
        lockedRecords += 1
        lockedBytes.saturatingAdd(byteCount)
      case .expired:
        expiredRecords += 1
        expiredBytes.saturatingAdd(byteCount)
      case .live, .streaming, .unreadable: break
      }
      records += 1
      if isPacked {
        packedRecords += 1
        packedBytes.saturatingAdd(byteCount)
      }
    }
  }

  /// The counters of a directory: an estimate that every whole collection corrects.
  public struct UsageEstimate: Hashable, Sendable {
    /// Record files, damaged ones among them.
    public var records: Int64 = 0
    /// Their bytes, headers included.
    public var bytes: Int64 = 0
    public var lockedRecords: Int64 = 0
    public var lockedBytes: Int64 = 0

    public init(records: Int64 = 0, bytes: Int64 = 0, lockedRecords: Int64 = 0, lockedBytes: Int64 = 0) {
      self.records = records
      self.bytes = bytes
      self.lockedRecords = lockedRecords
      self.lockedBytes = lockedBytes
    }
  }
}

extension BlobStore.UsageEstimate {
  static func - (a: BlobStore.UsageEstimate, b: BlobStore.UsageEstimate) -> BlobStore.UsageEstimate {
    BlobStore.UsageEstimate(
      records: a.records &- b.records, bytes: a.bytes &- b.bytes, lockedRecords: a.lockedRecords &- b.lockedRecords,
      lockedBytes: a.lockedBytes &- b.lockedBytes)
  }

  static func + (a: BlobStore.UsageEstimate, b: BlobStore.UsageEstimate) -> BlobStore.UsageEstimate {
    a - (BlobStore.UsageEstimate() - b)
  }

  /// Adds one record file; nil adds nothing.
  init(_ record: RecordSize?) {
    guard let record else { return }
    records = 1
    bytes = record.bytes
    lockedRecords = record.isLocked ? 1 : 0
    lockedBytes = record.isLocked ? record.bytes : 0
  }
}

extension BlobStore {
  /// What the packs of a directory take, as their chunk tables have it.
  public struct PackUsage: Hashable, Sendable {
    /// How many packs there are.
    public var packs: Int64 = 0
    /// Bytes that their files take on the medium, heads and free chunks with blocks included.
    public var mediumBytes: Int64 = 0
    /// Records that are current, about.
    public var records: Int64 = 0
    /// Bytes that those take in their chunks, about.
    public var liveBytes: Int64 = 0
    /// Bytes given out that no current record takes, about: of those that were replaced or removed. Collections make them
    /// free again.
    public var deadBytes: Int64 = 0

    public init() {}
  }
}
