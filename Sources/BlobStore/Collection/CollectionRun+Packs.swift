internal import Posix

extension CollectionRun {
  /// Makes chunks of the packs free, from which the passes before have removed records.
  func compactPacks() throws {
    guard !options.dryRun, let open = try core.root.opened(), let packs = try core.records.packs(of: open) else {
      return
    }
    var compaction = PackCompaction(
      of: packs, isStopped: { [tally] in tally.isStopped }, didFail: { [tally] in tally.noteFailure($0) })
    try compaction.run()
    try makeCheckpoint(of: packs)
  }

  /// Its loss costs the next boot a longer walk. So where others are busy or the volume is full, the next collection makes it.
  private func makeCheckpoint(of packs: PackRecords) throws {
    guard !tally.isStopped else { return }
    var checkpointing = PackCheckpointing(of: packs)
    do {
      try checkpointing.runIfDue()
    } catch let error as BlobStoreError where error.code == .busy {
      core.configuration.logger.notice("no checkpoint of the packs: \(error)")
    } catch let error as FileError where error.isLackOfRoom {
      core.configuration.logger.notice("no checkpoint of the packs: \(error)")
    }
  }
}
