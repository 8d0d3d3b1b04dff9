package import BlobRecord

/// The header and generation that a store has put on disk.
package struct StoreReceipt: Sendable {
  /// The header as it was written, kept locks included.
  package let header: RecordHeader
  /// The key's generation right after the change, before any other; nil without generations.
  package let generation: UInt64?
}
