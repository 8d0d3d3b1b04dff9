internal import BlobRecord
internal import Posix

extension Publisher {
  /// Stores a batch of small blobs, as far as that is possible without waiting, and returns the published ones. The
  /// others must be stored separately, which reports any error.
  func publishTogether(
    _ blobs: ArraySlice<(key: BlobKey, payload: Data)>, ttl: Duration?, locks: BlobStore.LockPolicy
  ) -> PackedBatch.Results {
    guard core.configuration.mayPack, blobs.count > 1 else { return PackedBatch.Results() }
    // A blob whose candidate cannot be made is stored separately, which reports the error.
    guard let first = try? core.path(for: blobs[blobs.startIndex].key) else { return PackedBatch.Results() }
    var loop = DraftLoop(Records(core), DraftAttempts(mayRecycle: false, canWriteAgain: true, mayPack: true))
    do {
      return try loop.run(at: first, self) { attempt in
        let open = try madeRoot()
        guard attempt.ways.mayPack, var batch = try PackedBatch(of: core, in: open, within: enforcer?.limit) else {
          return PackedBatch.Results()
        }
        attempt.kind = .packed
        let candidates = candidates(blobs, in: open, ttl: ttl, locks: locks)
        let results = try batch.store(candidates) { enforcer?.willStore($0) }
        // The keys have been released, because subsequent work may need them.
        for record in results.stored { didStore(record.header, at: record.path, of: open, exceeding: record.exceeding) }
        batch.growIfDue()
        return results
      }
    } catch {
      // Nothing is published. The separate store of each blob fails again, or succeeds.
      return PackedBatch.Results()
    }
  }

  private func candidates(
    _ blobs: ArraySlice<(key: BlobKey, payload: Data)>, in open: OpenRoot, ttl: Duration?,
    locks: BlobStore.LockPolicy
  ) -> [PackedBatch.Candidate] {
    zip(blobs.indices, blobs).compactMap { index, blob in
      // The separate store of an invalid blob reports the error.
      guard Records(core).mayPack(payloadOf: Int64(blob.payload.count)), let path = try? core.path(for: blob.key) else {
        return nil
      }
      return try? candidate(index, blob.key, blob.payload, open.placed(path), ttl: ttl, locks: locks)
    }
  }

  private func candidate(
    _ index: Int, _ key: BlobKey, _ payload: Data, _ path: RecordPath, ttl: Duration?, locks: BlobStore.LockPolicy
  ) throws -> PackedBatch.Candidate {
    try Records(core).checkSize(Int64(payload.count))
    var header = try newHeader(ttl: ttl, locks: locks)
    header.payloadSize = UInt64(payload.count)
    header.payloadChecksum = CRC32.checksum(of: payload.bytes)
    header.keyDigest = path.digest
    let tail = try Records(core).newExtension(of: key, at: path, nil)?.encoded ?? []
    header.extensionEnd = tail.isEmpty ? nil : UInt32(tail.count)
    return PackedBatch.Candidate(
      index: index, path: path, header: header, locks: locks, payload: payload, tail: tail)
  }
}
