internal import Posix

/// The most that a directory may hold, and by how much stores may exceed it while a collection catches up.
struct StoreLimit: Sendable {
  private(set) var bytes: Int64?
  let records: Int64?
  /// The bytes that the volume can spare, as far as known. It makes collections due, but refuses no store.
  var volumeBytes = Int64.max
  /// The bytes that the quarantine may take, which the counters do not count.
  let quarantineBytes: Int64

  /// - Returns: nil without a limit.
  init?(_ configuration: BlobStore.Configuration, quarantineBytes: Int64) {
    guard configuration.limits.size != nil || configuration.limits.count != nil else { return nil }
    bytes = configuration.limits.size
    records = configuration.limits.count
    self.quarantineBytes = quarantineBytes
  }

  /// A tenth, or 16 MiB: what a few writers store during a long collection.
  private static func slack(_ limit: Int64) -> Int64 { Swift.max(limit / 10, 16 << 20) }
  /// A tenth, or 16,384 records, which make 16 MiB of a kilobyte each.
  private static func recordSlack(_ limit: Int64) -> Int64 { Swift.max(limit / 10, 16_384) }

  /// This limit, less so many bytes that must be left free.
  func leavingFree(_ room: Int64) -> StoreLimit {
    var limit = self
    limit.bytes = bytes.map { max(0, $0 - room) }
    return limit
  }

  /// This limit, or so many bytes if those are fewer.
  func within(_ byteCount: Int64?) -> StoreLimit {
    var limit = self
    if let byteCount { limit.bytes = min(bytes ?? .max, byteCount) }
    return limit
  }

  /// Whether there is more than may stay, so that a collection is due.
  func isExceeded(by usage: BlobStore.UsageEstimate) -> Bool {
    usage.bytes > min(bytes ?? .max, volumeBytes) || usage.records > records ?? .max
  }

  /// Whether a change to this usage must wait for room.
  func refuses(from before: RecordSize?, to after: RecordSize, _ usage: BlobStore.UsageEstimate, isKnown: Bool) -> Bool
  {
    // A record that is replaced by an equal or smaller one exceeds nothing.
    after.bytes > before?.bytes ?? -1 && isFarExceeded(by: usage, isKnown: isKnown)
  }

  /// Whether there is more than there may ever be.
  ///
  /// - Parameter isKnown: whether the counters are. If not, they tell what was added since they were made. In a
  ///   directory within its limit, that may be as much as a known one may exceed it by.
  func isFarExceeded(by usage: BlobStore.UsageEstimate, isKnown: Bool) -> Bool {
    let mostBytes = bytes.map { limit in
      (isKnown ? limit : 0).saturatingAdding(Self.slack(limit) - quarantineBytes)
    }
    let mostRecords = records.map { limit in (isKnown ? limit : 0).saturatingAdding(Self.recordSlack(limit)) }
    return usage.bytes > mostBytes ?? .max || usage.records > mostRecords ?? .max
  }
}
