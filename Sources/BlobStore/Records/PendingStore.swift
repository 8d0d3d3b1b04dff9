internal import BlobRecord
internal import Posix

/// A store operation from its call until the publication of its record, in either engine.
struct PendingStore: ~Copyable {
  var header: RecordHeader
  /// The requested lock count, without the locks of the replaced record.
  private let askedRefCount: UInt32
  let locks: BlobStore.LockPolicy
  var condition: StoreCondition?
  /// `nil` if stores start no collections.
  let limit: StoreLimit?
  /// `nil` unless the store waits for room. The closure is called when room is available, before the store is counted.
  var stopWaiting: (() -> Void)?

  init(_ header: RecordHeader, locks: BlobStore.LockPolicy, if condition: StoreCondition?, within limit: StoreLimit?) {
    self.header = header
    self.locks = locks
    self.condition = condition
    self.limit = limit
    askedRefCount = header.refCount
  }

  var hasLocksAsAsked: Bool { header.refCount == askedRefCount }

  mutating func forgetKeptLocks() { header.refCount = askedRefCount }

  var isStream: Bool { header.flags.contains(.streamIncomplete) }

  var size: RecordSize {
    isStream ? .stream : RecordSize(bytes: header.fileByteCount, isLocked: header.isLocked)
  }
}
