internal import BlobRecord
internal import Posix

/// Writes a checkpoint of the index once enough records have been stored: Spec/Packs.md, "Checkpoints".
///
/// The caller holds the collector lock, so no chunk becomes free in the meantime. Changes continue.
struct PackCheckpointing {
  /// The factor that limits a checkpoint to at most an eighth of the bytes stored since the last one.
  private static let bytesPerIndexByte = 8

  private var records: PackRecords

  init(of records: PackRecords) { self.records = records }

  private var files: PackFiles { records.packs.files }

  /// Writes a checkpoint if one is due, or leaves it to the next collection if a stripe is held for long.
  ///
  /// - Complexity: One cache line per chunk; if a checkpoint is due, a sync of the packs and O(*n*) for *n* buckets.
  mutating func runIfDue() throws {
    let packs = try files.all()
    let covers = try covers(of: packs)
    guard isDue(packs, covers), try files.directory.mayReplace(PackCheckpoint.name) else { return }
    // The sequence is read after the in-flight counts, so each covered record already has its number.
    let sequence = records.control.packSequence
    var draft = try copy(covers)
    // Changes that the copy contains only in part, or that dead processes left, are completed first. Each covered
    // record that is missing from the copy is then marked as dead.
    guard try records.finishAvailableStripes() else { return }
    try files.synchronize()
    try draft.commit(upTo: sequence)
  }

  private mutating func copy(_ covers: [SIMD4<UInt32>]) throws -> PackCheckpointDraft {
    while true {
      var draft = try PackCheckpointDraft(
        of: records.packs.index, covers: covers, in: files.directory, names: records.core.temporaryNames)
      try draft.copyBuckets()
      if records.packs.isInForce { return draft }
      try records.follow()
    }
  }

  /// Returns whether reading the uncovered chunks would take far longer than writing a checkpoint.
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

  /// Returns the salts of all sealed chunks without records in flight.
  private func covers(of packs: [PackFile]) throws -> [SIMD4<UInt32>] {
    var covers = [SIMD4<UInt32>](repeating: .zero, count: packs.numberBound * PackLayout.chunkCount)
    // Bytes that a failed sync left are not known to have reached the medium.
    for pack in packs where !pack.hasFailedToSynchronize {
      for chunk in 0..<PackLayout.chunkCount {
        let entry = pack.entry(ofChunk: chunk)
        // Sealed before the count is read, so that no further record can be added.
        guard entry.state.kind == .sealed,
          try entry.inFlight == 0 || !records.control.isOwnOrAlive(entry.state.owner)
        else { continue }
        covers[pack.number * PackLayout.chunkCount + chunk] = PackCheckpoint.cover(ofChunk: chunk, of: pack)
      }
    }
    return covers
  }
}
