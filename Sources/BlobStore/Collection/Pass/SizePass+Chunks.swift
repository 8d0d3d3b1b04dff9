internal import BlobRecord

extension SizePass {
  /// The minimum number of chunks that leaves a choice between them.
  private static let leastChunks = 16

  /// Empties chunks of the packs if the packs contain most of the data. Records early in the order are evicted and the
  /// others are moved, so evictions leave no holes (Spec/Eviction.md). Returns `false` if nothing was done.
  func evictByChunks(_ excess: inout Excess, _ open: OpenRoot) throws -> Bool {
    guard let standings = packed.take(), standings.chunkCount >= Self.leastChunks,
      standings.logicalByteCount > tally.report.bytesAfter / 2, let packs = try Records(core).packs(of: open)
    else { return false }
    tally.begin(.size)
    // The packs free the same share as the whole directory.
    let share = min(
      1,
      max(
        Double(excess.bytes) / Double(max(1, tally.report.bytesAfter)),
        Double(excess.records) / Double(max(1, tally.report.recordsAfter))))
    let before = (bytes: tally.report.bytesAfter, records: tally.report.recordsAfter)
    let subdirectories = LastSubdirectory(open)
    var compaction = PackCompaction(
      of: packs, isStopped: { [tally] in tally.isStopped }, didFail: { [tally] in tally.noteFailure($0) })
    compaction.allowance = PackCompaction.allowanceAtLimit
    compaction.eviction = PackCompaction.ChunkEviction(
      standings: standings, byteCount: Int64(share * Double(standings.byteCount)),
      evict: { try self.evict($0, upTo: $1, in: subdirectories) })
    try compaction.run()
    excess.bytes -= before.bytes - tally.report.bytesAfter
    excess.records -= before.records - tally.report.recordsAfter
    return true
  }

  private func evict(_ path: RecordPath, upTo last: EvictionStep, in subdirectories: LastSubdirectory) throws {
    guard !aim.isSpared(path.digest) else { return }
    tally.advance()
    var updateTime: UInt64 = 0
    let removal = try remover.remove(path, met: nil, for: .evicted, in: subdirectories) { record in
      guard isEvictable(record.state), let header = record.header else { return false }
      updateTime = header.updateTime
      return order.step(of: order.standing(of: header, path.digest).place) <= last
    }
    guard case .removed(let size) = removal else { return }
    tally.isGone(size)
    let age = core.configuration.now().seconds.saturatingSubtracting(Int64(clamping: updateTime))
    tally.evictions.add(age: age)
  }
}
