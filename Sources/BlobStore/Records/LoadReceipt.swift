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
