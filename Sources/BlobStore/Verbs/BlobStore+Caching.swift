package import BlobRecord
internal import Logging
internal import Posix
internal import SystemPackage

extension BlobStore {
  /// Throws the error that a store of this size would throw before it writes anything: `invalidKey`,
  /// `invalidTimeToLive`, `payloadTooLarge`, `extendedDataTooLarge`, `extendedDataRefused`.
  package func checkStore(
    byteCount: Int, _ extendedData: Data?, for key: BlobKey, ttl: Duration?
  ) throws(BlobStoreError) {
    try withErrorContext("store", key) {
      _ = try core.path(for: key)
      try Records(core).checkExtendedData(extendedData ?? Data())
      _ = try storedTimeToLive(ttl)
      try Records(core).checkSize(Int64(byteCount))
    }
  }

  /// Returns the header that a store would write now, for a blob that is stored later.
  package func prospectiveHeader(
    for key: BlobKey, _ payload: RawSpan, _ extendedData: Data?, ttl: Duration?
  ) throws(BlobStoreError) -> RecordHeader {
    let (digest, kept) = try withErrorContext("store", key) {
      let path = try core.path(for: key)
      return (path.digest, try Records(core).newExtension(of: key, at: path, extendedData))
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

  /// Advances the update time of a record with ttl 0 as a load at that time would have done, without waiting. Returns
  /// the update time, or `nil` if the record is being changed or no longer exists. Throws `invalidKey`.
  package func refresh(_ key: BlobKey, to time: UnixTime) throws(BlobStoreError) -> UnixTime? {
    try withErrorContext("touch", key) { Records(core).touchAfterLoad(try core.path(for: key), time) }
  }

  /// The effective time to live, in seconds, of records that are stored without one.
  package var effectiveDefaultExpiration: Int64 { core.defaultExpiration }
}

extension BlobStoreError {
  /// Wraps an error of a layer above, unless it is a `BlobStoreError` already.
  package init(anything error: any Error, operation: String, key: BlobKey?) {
    if let error = error as? BlobStoreError {
      self = error
    } else {
      self.init(error, operation: operation, key: key)
    }
  }
}

extension BlobStore {
  /// Tries to become the one process, of all that share the directory, that produces the blob of a missing key.
  ///
  /// All processes may still change the key, because the lock only prevents duplicate work of processes that request
  /// it. It does not exclude threads of the same process. Keys may share a lock, so one may have to wait for another.
  ///
  /// - Returns: A closure that releases the lock and must be called once, or `nil` if another process holds the lock.
  package func tryProductionLock(of key: BlobKey) throws(BlobStoreError) -> (@Sendable () -> Void)? {
    try withErrorContext("load", key) {
      guard core.configuration.access.sharing == .shared else { return {} }
      let path = try core.path(for: key)
      while true {
        let open = try publisher.madeRootOfLocks()
        // Without a control file, nothing can be locked, so several processes may do the work.
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

extension BlobStore {
  /// Checks whether the root was replaced at its path. If so, it is released as soon as no operation uses it.
  package func checkRoot() {
    // The next operation reports an error.
    _ = try? core.root.forgetIfReplacedNow()
  }

  /// A number that grows whenever the directory at the root's path may have been replaced or removed.
  package var rootChanges: UInt64 { core.root.changes }

  /// Closes the subdirectories that stay open for later changes, because no more changes are expected for some time.
  package func closeSubdirectories() { core.root.lastOpened?.closeSubdirectories() }

  /// Creates `CACHEDIR.TAG` in the directory, unless it exists or could be mistaken for a record.
  package func leaveCacheTag() throws(BlobStoreError) {
    try withErrorContext("store") {
      guard let open = try core.root.opened(),
        CacheDirectoryTag.isTag(CacheDirectoryTag.name, in: core.layout(of: open))
      else { return }
      guard try open.directory.status(of: CacheDirectoryTag.name) == nil else { return }
      // The file is complete before it gets its name, because a partial signature would be invalid.
      var temporary = try FileDraft(
        in: OpenSubdirectory(open.directory.reopened()), of: open.ownership, names: core.temporaryNames)
      let content = Array(CacheDirectoryTag.content.utf8)
      try temporary.file.write(unsafe content.span.bytes, at: 0)
      _ = try temporary.commitOrLink(as: CacheDirectoryTag.name)
    }
  }
}
