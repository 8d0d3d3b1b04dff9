public import BlobRecord
internal import Posix

extension BlobStore {
  /// Opens the blob of a key, if it is live or being written, for reads that wait for what is still to come.
  ///
  /// A blob that is being written is one of a writer with `visibility: .whileWriting`, in this process or in another one.
  /// A whole blob is opened as by `openReader`, and ends without a wait.
  ///
  /// System calls: openat2, fstat, pread; of a stream also flock, fstat, pread, flock.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - timeout: how long each read waits for another byte.
  ///   - touching: whether to move the update time of a whole record.
  /// - Returns: nil if there is no record, or it is expired and not locked.
  /// - Throws: `damaged`, also of a stream whose writer is gone; `fileSystem`, `invalidKey`.
  /// - Complexity: O(1).
  public func openFollower(
    for key: BlobKey, timeout: Duration = .seconds(30), touching: Bool = true
  ) throws(BlobStoreError) -> BlobFollower? {
    try withErrorContext("load", key) {
      var path = try core.path(for: key)
      let now = core.configuration.now()
      // The directory that was read, where the load is counted.
      var place: OpenRoot?
      let look = RecordToFollow(path: path, now: now)
      let found = try core.readUntilConsistent(look, core.configuration.damagePolicy, &place)
      if let place { path = place.placed(path) }
      guard let (header, found) = found else {
        core.count(.miss, of: path.digest, isUse: touching, at: now, in: place)
        return nil
      }
      let stream = core.streams.follow(found, header)
      core.count(
        .hit(byteCount: Int(clamping: stream.progress.byteCount)), of: path.digest, isUse: touching, at: now, in: place)
      if touching, header.ttl == 0, header.lastUpdate < now { _ = core.touchAfterLoad(path, now) }
      return BlobFollower(core, key: key, path: path, stream, found.stream, timeout: timeout)
    }
  }
}

/// The header and the extension of a record whose file is kept open, also while it is written.
private struct RecordToFollow: RecordLook {
  let path: RecordPath
  let now: UnixTime

  func reading(from core: StoreCore, in open: OpenRoot, isFirst: Bool) throws -> Reading<FollowedRecord> {
    try core.records.openFollowed(open.placed(path), in: open, at: now)
  }
}
