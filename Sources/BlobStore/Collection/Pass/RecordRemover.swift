internal import BlobRecord

/// What the passes of one collection share.
struct PassContext {
  let core: StoreCore
  let options: BlobStore.CollectionOptions
  /// The control file; nil if it is missing, or may not be used.
  let control: ControlFile?
  let tally: CollectionTally
  let rule: ExpiryRule
  /// When the collection began.
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

/// Removes the records that a pass has chosen, each judged again under its stripe, and counts them.
struct RecordRemover {
  let core: StoreCore
  let options: BlobStore.CollectionOptions
  let tally: CollectionTally

  /// Removes a record that a walk has met just now.
  ///
  /// - Parameters:
  ///   - size: what a dry run counts.
  ///   - isDue: whether the record, as it is under its stripe, still has to go.
  /// - Returns: what became of it; `removed` also in a dry run.
  func remove(
    _ path: RecordPath, met size: RecordSize, for cause: CollectedRecord.Cause, in walk: RecordWalk, _ open: OpenRoot,
    if isDue: (RecordEntry) -> Bool
  ) throws -> Removal {
    if options.dryRun { return count(size, for: cause) }
    let removal = try core.removeRecord(
      at: path, metBy: walk, of: open, recycling: !options.emptiesBin, if: isDue)
    return count(removal, met: size, path, for: cause)
  }

  /// Removes a record that was met a while ago.
  func remove(
    _ path: RecordPath, met size: RecordSize?, for cause: CollectedRecord.Cause, in subdirectories: LastSubdirectory,
    if isDue: (RecordEntry) -> Bool
  ) throws -> Removal {
    if options.dryRun, let size { return count(size, for: cause) }
    let removal = try core.removeRecord(at: path, subdirectories, recycling: !options.emptiesBin, if: isDue)
    return count(removal, met: size, path, for: cause)
  }

  /// The outcome for a record.
  enum Removal {
    case removed(RecordSize)
    /// It is gone already, or not what had to go.
    case stays
    /// Another change has its stripe.
    case busy
  }

  private func count(_ size: RecordSize, for cause: CollectedRecord.Cause) -> Removal {
    tally.removed(size.bytes, for: cause)
    return .removed(size)
  }

  /// - Parameter size: as it was met; nil to count what was removed.
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

  /// Tells the observer, if there is one, of a record that is gone.
  private func tell(_ cause: CollectedRecord.Cause, _ path: RecordPath, _ removed: RecordEntry) {
    guard let observer = core.collectionObservation.observer else { return }
    observer.didRemove(
      CollectedRecord(cause: cause, key: removed.key, digest: path.digest, fileSize: removed.fileSize))
  }
}
