extension BlobStore {
  /// The content of a directory, in logical bytes, which count headers and payloads, not blocks.
  public struct Usage: Hashable, Sendable {
    /// The number of records with a sound header, which are live, locked, or expired.
    public var records: Int64 = 0
    /// The number of bytes of these records, and of damaged, quarantined, and recycled files.
    public var bytes: Int64 = 0
    public var lockedRecords: Int64 = 0
    public var lockedBytes: Int64 = 0
    public var expiredRecords: Int64 = 0
    public var expiredBytes: Int64 = 0
    /// The number of `records` that are stored in packs.
    public var packedRecords: Int64 = 0
    public var packedBytes: Int64 = 0
    /// The usage of the packs.
    public var packs = PackUsage()
    public var damagedFiles: Int64 = 0
    public var damagedBytes: Int64 = 0
    public var quarantinedFiles: Int64 = 0
    public var quarantinedBytes: Int64 = 0
    /// The number of files of dead records that can be overwritten by later stores.
    public var recycledFiles: Int64 = 0
    public var recycledBytes: Int64 = 0
    /// The number of unfinished records, including visible ones, and of leftovers of writers that died.
    public var temporaryFiles: Int64 = 0
    /// The number of bytes of the temporary files, which are not part of another property.
    public var temporaryBytes: Int64 = 0
    /// The number of files that do not belong to the cache, whose bytes are not counted.
    public var foreignFiles: Int64 = 0
    /// The foreign files that are not records only because another user owns them.
    public var foreignRecords = ForeignRecords()
    /// The number of files and subdirectories that could not be read, which are not part of another property.
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

  /// The counters of a directory, an estimate that every whole collection corrects.
  public struct UsageEstimate: Hashable, Sendable {
    /// The number of record files, including damaged ones.
    public var records: Int64 = 0
    /// The number of bytes of the record files, including headers.
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

  /// Creates an estimate that counts one record file, or nothing for `nil`.
  init(_ record: RecordSize?) {
    guard let record else { return }
    records = 1
    bytes = record.bytes
    lockedRecords = record.isLocked ? 1 : 0
    lockedBytes = record.isLocked ? record.bytes : 0
  }
}

extension BlobStore {
  /// The usage of a directory's packs, according to their chunk tables.
  public struct PackUsage: Hashable, Sendable {
    /// The number of packs.
    public var packs: Int64 = 0
    /// The number of bytes of the packs on the medium, including headers and free chunks with allocated blocks.
    public var mediumBytes: Int64 = 0
    /// The approximate number of current records.
    public var records: Int64 = 0
    /// The approximate number of bytes of current records in their chunks.
    public var liveBytes: Int64 = 0
    /// The approximate bytes of replaced and removed records in chunks, which collections make available again.
    public var deadBytes: Int64 = 0

    public init() {}
  }
}
