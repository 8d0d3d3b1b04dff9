package import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

// The calls for a cache in front of the store, besides the verbs.
extension BlobStore {
  /// Whether a store of so many bytes would be refused before anything is written.
  ///
  /// - Throws: `invalidKey`, `invalidTimeToLive`, `payloadTooLarge`, `extendedDataTooLarge`, `extendedDataRefused`.
  package func checkStore(
    byteCount: Int, _ extendedData: Data?, for key: BlobKey, ttl: Duration?
  ) throws(BlobStoreError) {
    try withErrorContext("store", key) {
      _ = try core.path(for: key)
      try core.checkExtendedData(extendedData ?? Data())
      _ = try storedTimeToLive(ttl)
      try core.checkSize(Int64(byteCount))
    }
  }

  /// The header that a store of now would write, for a blob that is stored later.
  package func prospectiveHeader(
    for key: BlobKey, _ payload: RawSpan, _ extendedData: Data?, ttl: Duration?
  ) throws(BlobStoreError) -> RecordHeader {
    let (digest, kept) = try withErrorContext("store", key) {
      let path = try core.path(for: key)
      return (path.digest, try core.newExtension(of: key, at: path, extendedData))
    }
    var header = RecordHeader(
      ttl: try storedTimeToLive(ttl), updateTime: UInt64(clamping: core.configuration.now().seconds),
      payloadSize: UInt64(payload.byteCount))
    if core.configuration.format == .checksummed {
      header.payloadChecksum = CRC32.checksum(of: payload)
      header.keyDigest = digest
    }
    header.extensionEnd = kept.map { UInt32($0.byteCount) }
    return header
  }

  /// Moves the update time of a record with ttl 0 on to its last use.
  ///
  /// It does as a load at that time would have done: never back, only the header, and only without waiting.
  ///
  /// - Returns: the update time afterwards; nil if it is not known, because the record is being changed or is gone.
  /// - Throws: `invalidKey`.
  package func refresh(_ key: BlobKey, to time: UnixTime) throws(BlobStoreError) -> UnixTime? {
    try withErrorContext("touch", key) { core.touchAfterLoad(try core.path(for: key), time) }
  }

  /// When a record with this header ceases to be current unless it is locked.
  package func expiry(of header: RecordHeader) -> UnixTime {
    header.expiry(defaultExpiration: core.defaultExpiration)
  }

  /// Seconds to live of records stored without a time to live, as they are in force.
  package var effectiveDefaultExpiration: Int64 { core.defaultExpiration }
}

extension BlobStoreError {
  /// Wraps an error of a layer above; a `BlobStoreError` stays what it is.
  package init(anything error: any Error, operation: String, key: BlobKey?) {
    if let error = error as? BlobStoreError {
      self = error
    } else {
      self.init(error, operation: operation, key: key)
    }
  }
}

extension BlobStore {
  /// Tries to become the one process, of all that share the directory, that makes the blob of a missing key.
  ///
  /// All processes may still change the key: the lock only keeps those that ask for it from doing equal work. Keys may
  /// share a lock, so one may have to wait for another. It does not exclude threads of its own process.
  ///
  /// - Returns: nil if another process has it; else what gives it back, to be called once.
  package func tryProductionLock(of key: BlobKey) throws(BlobStoreError) -> (@Sendable () -> Void)? {
    try withErrorContext("load", key) {
      guard core.configuration.access.sharing == .shared else { return {} }
      let path = try core.path(for: key)
      while true {
        let open = try publisher.madeRootOfLocks()
        // Without a control file there is no lock; then more than one process may do the work.
        guard let control = try core.controlFiles.controlFile(of: open, makesIt: true) else { return {} }
        switch try core.productions.tryLock(path.digest, of: control, in: open.directory) {
        case true: return { [productions = core.productions] in productions.unlock(path.digest, of: control) }
        case false: return nil
        case nil: open.forget(control)
        }
      }
    }
  }
}
