public import BlobRecord
internal import Posix

extension BlobStore {
  /// Opens the blob of a key, if it is live or being written, for reads that wait for what is still to come.
  ///
  /// A blob that is being written is one of a writer with `visibility: .whileWriting`, in this process or in another one.
  /// A whole blob is opened as by `openReader`, and ends without a wait.
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
    while true {
      do {
        return try openReader(for: key, touching: touching).map { BlobFollower($0, core, timeout: timeout) }
      } catch {
        guard error.recordError == .recordIsStreamAndBusy else { throw error }
      }
      // nil if it has just ended: then there is a whole blob, another one, or none.
      if let follower = try followerOfStream(key, timeout, touching: touching) { return follower }
    }
  }

  private func followerOfStream(
    _ key: BlobKey, _ timeout: Duration, touching: Bool
  ) throws(BlobStoreError) -> BlobFollower? {
    try withErrorContext("load", key) {
      let path = try core.path(for: key)
      guard let open = try core.root.opened() else { return nil }
      let placed = open.placed(path)
      guard case .regular(let file, let status) = try core.records.open(placed, in: open, for: .read) else {
        return nil
      }
      guard case .success(let stored) = try file.readHeader(), let header = try? stored.validated(),
        header.flags.contains(.streamIncomplete)
      else { return nil }
      if let digest = header.keyDigest, digest != path.digest {
        throw DamagedRecord(error: .keyMismatch(stated: digest, expected: path.digest), path: file.location.path)
      }
      let identity = FileIdentity(status)
      let stream = core.streams.follow(file, identity)
      core.count(
        .hit(byteCount: Int(clamping: stream.progress.byteCount)), of: path.digest, isUse: touching,
        at: core.configuration.now(), in: open)
      return BlobFollower(core, key: key, path: placed, stream, identity, timeout: timeout)
    }
  }
}

extension BlobFollower {
  /// Follows a blob that is whole.
  fileprivate convenience init(_ reader: BlobReader, _ core: StoreCore, timeout: Duration) {
    let progress = FollowedProgress(byteCount: reader.byteCount, header: reader.header)
    self.init(
      core, key: reader.key, path: reader.path, FollowedStream(reader.record, progress), nil, timeout: timeout)
  }
}
