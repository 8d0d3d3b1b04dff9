package import BlobRecord

/// What a load leaves for a memory tier in front of the store.
package struct LoadReceipt: Sendable {
  /// The record's update time on disk, where the load has moved it, or seen that another did; nil where it is the header's.
  package internal(set) var update: UnixTime?
  /// The generation in which the record was read, of a look that never waits.
  package internal(set) var generation: UInt64?
  /// The time to which the update time is still to be moved: a look that never waits leaves that to the caller.
  package internal(set) var owedTouch: UnixTime?

  package init() {}
}

/// The header and generation that a store has put on disk.
package struct StoreReceipt: Sendable {
  /// The header as it was written, kept locks included.
  package let header: RecordHeader
  /// The key's generation right after the change, before any other; nil without generations.
  package let generation: UInt64?
}

/// The answer of a look that never waits.
package enum CachedAnswer<Value: Sendable>: Sendable {
  /// What the ordinary look answers too; nil if there is no live record.
  case known(Value?)
  /// The ordinary look must tell.
  case unknown
}
