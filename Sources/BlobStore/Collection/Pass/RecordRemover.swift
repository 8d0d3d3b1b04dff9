internal import BlobRecord

/// The state that the passes of a collection share.
struct PassContext {
  let core: StoreCore
  let options: BlobStore.CollectionOptions
  /// The control file, or `nil` if it is missing or unusable.
  let control: ControlFile?
  let tally: CollectionTally
  let rule: ExpiryRule
  let now: UnixTime

  init(_ core: StoreCore, _ options: BlobStore.CollectionOptions, _ control: ControlFile?, _ tally: CollectionTally) {
    self.core = core
    self.options = options
    self.control = control
    self.tally = tally
    rule = ExpiryRule(goal: options.goal, core)
    now = core.configuration.now()
  }

  var remover: RecordRemover { RecordRemover(core: core, options: options, tally: tally) }
}

/// Removes and counts the records that a pass has selected, after another check under each record's stripe.
struct RecordRemover {
  let core: StoreCore
  let options: BlobStore.CollectionOptions
  let tally: CollectionTally

  /// Removes a record that a walk has just returned, if `isDue` still accepts it. A dry run only counts the record.
  func remove(
    _ path: RecordPath, met size: RecordSize, for cause: CollectedRecord.Cause, in walk: RecordWalk, _ open: OpenRoot,
    if isDue: (RecordEntry) -> Bool
  ) throws -> Removal {
    if options.dryRun { return count(size, for: cause) }
    let removal = try Records(core).removeRecord(
      at: path, metBy: walk, of: open, recycling: !options.emptiesBin, if: isDue)
    return count(removal, met: size, path, for: cause)
  }

  /// Removes a record that a walk returned some time ago.
  func remove(
    _ path: RecordPath, met size: RecordSize?, for cause: CollectedRecord.Cause, in subdirectories: LastSubdirectory,
    if isDue: (RecordEntry) -> Bool
  ) throws -> Removal {
    if options.dryRun, let size { return count(size, for: cause) }
    let removal = try Records(core).removeRecord(at: path, subdirectories, recycling: !options.emptiesBin, if: isDue)
    return count(removal, met: size, path, for: cause)
  }

  enum Removal {
    case removed(RecordSize)
    case stays
    case busy
  }

  private func count(_ size: RecordSize, for cause: CollectedRecord.Cause) -> Removal {
    tally.removed(size.bytes, for: cause)
    return .removed(size)
  }

  /// - Parameter size: The size as of the walk, or `nil` to count the removed size.
  private func count(
    _ removal: RecordRemoval, met size: RecordSize?, _ path: RecordPath, for cause: CollectedRecord.Cause
  ) -> Removal {
    switch removal {
    case .busy: return .busy
    case .stays: return .stays
    case .removed(let removed):
      tally.counted.removed = tally.counted.removed + BlobStore.UsageEstimate(removed.size)
      tell(cause, path, removed)
      return count(size ?? removed.size, for: cause)
    }
  }

  private func tell(_ cause: CollectedRecord.Cause, _ path: RecordPath, _ removed: RecordEntry) {
    guard let observer = core.collectionObservation.observer else { return }
    observer.didRemove(
      CollectedRecord(cause: cause, key: removed.key, digest: path.digest, fileSize: removed.fileSize))
  }
}
