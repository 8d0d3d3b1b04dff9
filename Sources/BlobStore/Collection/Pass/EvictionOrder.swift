internal import BlobRecord

/// What orders the candidates of an eviction: the one with the earliest time goes first.
///
/// The only place that ranks records. The size pass measures by it, remembers by it, and walks by it.
struct EvictionOrder {
  /// When the collection began.
  let now: UnixTime

  /// When a record counts as used last: a time that lies in the future counts as now.
  func lastUse(of header: RecordHeader) -> UnixTime { header.isStampedAhead(of: now) ? now : header.lastUpdate }
}
