extension BlobStore {
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
