package import BlobRecord

/// What a store has put on disk.
package struct StoreReceipt: Sendable {
  /// The header as it was written, kept locks included.
  package let header: RecordHeader
  /// The key's generation right after the change, before anybody else could make another; nil where there are none.
  package let generation: UInt64?
}
