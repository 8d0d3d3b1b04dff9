public import BlobRecord
internal import Posix

extension BlobStore {
  /// Opens the blob of a key for reads of its parts, if it is live.
  ///
  /// It counts, touches and follows `damagePolicy` as a load does, and takes no memory for the payload. So
  /// `limits.payload` does not hold here. The checksum of the payload is not compared yet: see `BlobReader`.
  ///
  /// System calls: openat2, fstat, pread, another pread for an extension; close when the reader goes.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - touching: whether to move the update time.
  /// - Returns: nil if there is no record, or it is expired and not locked.
  /// - Throws: `damaged`, `fileSystem`, `invalidKey`.
  /// - Complexity: O(1).
  public func openReader(for key: BlobKey, touching: Bool = true) throws(BlobStoreError) -> BlobReader? {
    try openReader(for: key, touching: touching, isLoad: true)
  }

  /// - Parameter isLoad: false for a copy that no caller has asked for, which is not counted.
  package func openReader(
    for key: BlobKey, touching: Bool, isLoad: Bool
  ) throws(BlobStoreError) -> BlobReader? {
    try withErrorContext("load", key) {
      var path = try core.path(for: key)
      let now = core.configuration.now()
      // The directory that was read, where the load is counted.
      var place: OpenRoot?
      let look = KeptRecord(path: path, now: now)
      let found = try core.readUntilConsistent(look, core.configuration.damagePolicy, &place)
      if let place { path = place.placed(path) }
      let outcome: CountedLoad = found.map { .hit(byteCount: Int(clamping: $0.0.payloadSize)) } ?? .miss
      if isLoad { core.count(outcome, of: path.digest, isUse: touching, at: now, in: place) }
      guard let (header, record) = found else { return nil }
      if touching, header.ttl == 0, header.lastUpdate < now { _ = core.touchAfterLoad(path, now) }
      return BlobReader(core, key: key, path: path, header, record)
    }
  }
}
