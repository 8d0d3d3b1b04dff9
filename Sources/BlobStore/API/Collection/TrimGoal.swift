public import BlobRecord

extension BlobStore {
  /// What a trim brings a directory to. Locked records stay, and count.
  public enum TrimGoal: Hashable, Sendable {
    /// The most bytes that may stay, headers included. Records are evicted in the order of `Configuration.Limits.eviction`.
    case byteCount(Int64)
    /// The most records that may stay, damaged ones included. Records are evicted in the order of
    /// `Configuration.Limits.eviction`.
    case recordCount(Int64)
    /// No record whose update time lies before.
    case updatedSince(UnixTime)
    /// No payload of more bytes.
    case payloads(upTo: Int64)
  }
}

extension BlobStore.TrimGoal {
  /// Whether it is about all records together, so that only their sum tells which have to go.
  var isAmount: Bool { byteLimit != nil || recordLimit != nil }

  /// Bytes that may stay; nil if any may.
  var byteLimit: Int64? {
    guard case .byteCount(let limit) = self else { return nil }
    return max(limit, 0)
  }

  /// Records that may stay; nil if any number may.
  var recordLimit: Int64? {
    guard case .recordCount(let limit) = self else { return nil }
    return max(limit, 0)
  }

  /// Whether a record exceeds the goal by itself, and must go unless it is locked.
  func excludes(_ header: RecordHeader) -> Bool {
    switch self {
    case .byteCount, .recordCount: false
    case .updatedSince(let time): header.lastUpdate < time
    case .payloads(let limit): header.payloadSize > UInt64(max(limit, 0))
    }
  }
}
