internal import BlobRecord
internal import Posix

/// Puts the index on the medium once much has come since the last time: Spec/Packs.md, "Checkpoints".
///
/// The caller has the collector's lock, so no chunk becomes free meanwhile. Changes go on.
struct PackCheckpointing {
  /// A checkpoint costs an eighth of the bytes that were stored since the last one, at most.
  private static let bytesPerIndexByte = 8

  private var records: PackRecords

  init(of records: PackRecords) { self.records = records }

  private var files: PackFiles { records.packs.files }

  /// Where another process has a stripe for long, the next collection makes it.
  ///
  /// - Complexity: a cache line for each chunk. If one is due, what the packs have not yet brought to the medium, and O(*n*) for
  ///   *n* buckets of the index.
  mutating func runIfDue() throws {
    let packs = try files.all()
    let covers = try covers(of: packs)
    guard isDue(packs, covers), try files.directory.mayReplace(PackCheckpoint.name) else { return }
    // After the look at what is in flight: each record that is covered had its sequence by then.
    let sequence = records.control.packSequence
    var draft = try copy(covers)
    // A change that the copy has seen half, or that a dead process has left, ends, or is finished. So each covered record that the
    // copy does not lead to is marked as dead.
    guard try records.finishAvailableStripes() else { return }
    try files.synchronize()
    try draft.commit(upTo: sequence)
  }

  /// A copy of an index that was in force all the while.
  private mutating func copy(_ covers: [SIMD4<UInt32>]) throws -> PackCheckpointDraft {
    while true {
      var draft = try PackCheckpointDraft(
        of: records.packs.index, covers: covers, in: files.directory, names: records.core.temporaryNames)
      try draft.copyBuckets()
      if records.packs.isInForce { return draft }
      try records.follow()
    }
  }

  /// Whether a walk of the chunks that are not covered would take far longer than a checkpoint.
  private func isDue(_ packs: [PackFile], _ covers: [SIMD4<UInt32>]) -> Bool {
    let indexByteCount = records.packs.index.bucketCount * IndexLayout.bucketByteCount
    let least = max(
      records.core.configuration.leastCheckpointByteCount, Self.bytesPerIndexByte * indexByteCount)
    let checkpoint: PackCheckpoint? =
      if case .checkpoint(let found) = PackCheckpoint.open(in: files.directory) { found } else { nil }
    var byteCount = 0
    for pack in packs {
      for chunk in 0..<PackLayout.chunkCount {
        guard covers[pack.number * PackLayout.chunkCount + chunk] != .zero,
          checkpoint?.covers(chunk: chunk, of: pack) != true
        else { continue }
        byteCount += pack.entry(ofChunk: chunk).end
        if byteCount >= least { return true }
      }
    }
    return false
  }

  /// The salts of all chunks that take no more records, and have none in flight.
  private func covers(of packs: [PackFile]) throws -> [SIMD4<UInt32>] {
    var covers = [SIMD4<UInt32>](repeating: .zero, count: packs.numberBound * PackLayout.chunkCount)
    // What a failed sync has left is not known to be on the medium.
    for pack in packs where !pack.hasFailedToSynchronize {
      for chunk in 0..<PackLayout.chunkCount {
        let entry = pack.entry(ofChunk: chunk)
        // Sealed before the count is read, so that nothing can come to it.
        guard entry.state.kind == .sealed,
          try entry.inFlight == 0 || !records.control.isOwnOrAlive(entry.state.owner)
        else { continue }
        covers[pack.number * PackLayout.chunkCount + chunk] = PackCheckpoint.cover(ofChunk: chunk, of: pack)
      }
    }
    return covers
  }
}
