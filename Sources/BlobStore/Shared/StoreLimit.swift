internal import Posix

/// The limits of a directory, and the excess that stores may cause while a collection catches up.
struct StoreLimit: Sendable {
  private(set) var bytes: Int64?
  let records: Int64?
  /// The known number of bytes that the volume can spare, which makes collections due but lets all stores proceed.
  var volumeBytes = Int64.max
  /// The number of bytes that the quarantine may take, which the counters do not include.
  let quarantineBytes: Int64

  init?(_ configuration: BlobStore.Configuration, quarantineBytes: Int64) {
    guard configuration.limits.size != nil || configuration.limits.count != nil else { return nil }
    bytes = configuration.limits.size
    records = configuration.limits.count
    self.quarantineBytes = quarantineBytes
  }

  /// A fifth, but at most 16 MiB, which a few writers store while records are evicted.
  private static func slack(_ limit: Int64) -> Int64 { min(limit / 5, 16 << 20) }
  /// A fifth, at least one record, and at most 16,384, which take 16 MiB with a kilobyte each.
  private static func recordSlack(_ limit: Int64) -> Int64 { max(1, min(limit / 5, 16_384)) }

  func leavingFree(_ room: Int64) -> StoreLimit {
    var limit = self
    limit.bytes = bytes.map { max(0, $0 - room) }
    return limit
  }

  func within(_ byteCount: Int64?) -> StoreLimit {
    var limit = self
    if let byteCount { limit.bytes = min(bytes ?? .max, byteCount) }
    return limit
  }

  /// Returns whether a collection is due.
  func isExceeded(by usage: BlobStore.UsageEstimate) -> Bool {
    usage.bytes > min(bytes ?? .max, volumeBytes) || usage.records > records ?? .max
  }

  /// Returns whether a change to this usage must wait for room.
  func refuses(from before: RecordSize?, to after: RecordSize, _ usage: BlobStore.UsageEstimate, isKnown: Bool) -> Bool
  {
    // A replacement by a record of at most the same size exceeds nothing.
    after.bytes > before?.bytes ?? -1 && isFarExceeded(by: usage, isKnown: isKnown)
  }

  /// Returns whether the usage exceeds the limits by more than the permitted excess. Unknown counters only count the
  /// changes since their creation, which must not exceed the permitted excess alone.
  func isFarExceeded(by usage: BlobStore.UsageEstimate, isKnown: Bool) -> Bool {
    let mostBytes = bytes.map { limit in
      (isKnown ? limit : 0).saturatingAdding(Self.slack(limit) - quarantineBytes)
    }
    let mostRecords = records.map { limit in (isKnown ? limit : 0).saturatingAdding(Self.recordSlack(limit)) }
    return usage.bytes > mostBytes ?? .max || usage.records > mostRecords ?? .max
  }
}
