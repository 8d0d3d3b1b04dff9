extension CollectionRun {
  /// Makes chunks of the packs free, from which the passes before have removed records.
  func compactPacks() throws {
    guard !options.dryRun, let open = try core.root.opened(), let packs = try core.records.packs(of: open) else {
      return
    }
    var compaction = PackCompaction(
      of: packs, isStopped: { [tally] in tally.isStopped }, didFail: { [tally] in tally.noteFailure($0) })
    try compaction.run()
  }
}
