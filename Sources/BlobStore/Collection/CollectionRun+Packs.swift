internal import Posix

extension CollectionRun {
  /// Removes files that dead processes have left in the packs' directory, then frees chunks from which the previous
  /// passes have removed records.
  func tidyPacks() throws {
    guard let open = try core.root.opened() else { return }
    guard let packs = try Records(core).packs(of: open) else {
      // A process may have died before it created the first pack.
      guard let directory = try PackDirectory.open(in: open, makesIt: false) else { return }
      _ = try removeDrafts(in: directory, of: open)
      return
    }
    do { try removeLeftovers(of: packs) } catch { tally.noteFailure(error) }
    guard !options.dryRun else { return }
    var compaction = PackCompaction(
      of: packs, isStopped: { [tally] in tally.isStopped }, didFail: { [tally] in tally.noteFailure($0) })
    try compaction.run()
    try makeCheckpoint(of: packs)
  }

  /// Writes the checkpoint, which is optional: without it, the next boot only needs a longer walk.
  private func makeCheckpoint(of packs: PackRecords) throws {
    guard !tally.isStopped else { return }
    var checkpointing = PackCheckpointing(of: packs)
    do {
      try checkpointing.runIfDue()
    } catch let error as FileError where error.isLackOfRoom {
      core.configuration.logger.notice("no checkpoint of the packs: \(error)")
    }
  }

  /// Removes packs and indexes that were never published, and a larger index that no process fills any longer.
  private func removeLeftovers(of packs: PackRecords) throws {
    let hasNextIndex = try removeDrafts(in: packs.packs.files.directory, of: packs.open)
    if hasNextIndex, !options.dryRun { try packs.giveUpDeadGrowth() }
  }

  /// - Returns: A Boolean value that indicates whether a larger index exists.
  private func removeDrafts(in packs: PackDirectory, of open: OpenRoot) throws -> Bool {
    var hasNextIndex = false
    var entries = try packs.subdirectory.directory.entries()
    while try entries.advance() {
      let name = entries.entry.name
      if name == PackIndex.nextName { hasNextIndex = true }
      guard TemporaryNames.isName(name) else { continue }
      do {
        guard
          let byteCount = try Records(core).removeTemporaryFile(
            name, in: packs.subdirectory.directory, of: open, dryRun: options.dryRun)
        else { continue }
        tally.report.temporary += 1
        tally.report.bytesFreed.saturatingAdd(byteCount)
      } catch {
        tally.noteFailure(error)
      }
    }
    return hasNextIndex
  }
}
