package import BlobRecord

/// The facts that a load provides to a memory tier in front of the store.
package struct LoadReceipt: Sendable {
  /// The record's update time on disk after this or another load has changed it; `nil` if it equals the header's.
  package internal(set) var update: UnixTime?
  /// The generation in which a lookup that never waits read the record.
  package internal(set) var generation: UInt64?
  /// The update time that the caller must still write to the record after a lookup that never waits.
  package internal(set) var owedTouch: UnixTime?

  package init() {}
}

/// The header and generation that a store has written to disk.
package struct StoreReceipt: Sendable {
  /// The header as it was written, including inherited locks.
  package let header: RecordHeader
  /// The key's generation immediately after the change, or `nil` without generations.
  package let generation: UInt64?
}

package enum CachedAnswer<Value: Sendable>: Sendable {
  /// The result, which is the same as that of an ordinary lookup; `nil` if no live record exists.
  case known(Value?)
  case unknown
}
