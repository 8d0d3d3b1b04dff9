package import BlobRecord

/// What a load leaves for a memory tier in front of the store.
package struct LoadReceipt: Sendable {
  /// The record's update time on disk, where the load has moved it, or seen that another did; nil where it is the header's.
  package internal(set) var update: UnixTime?

  package init() {}
}
