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
}
