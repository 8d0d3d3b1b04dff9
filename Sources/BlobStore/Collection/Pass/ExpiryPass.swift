internal import BlobRecord
internal import Posix
internal import SystemPackage

/// One walk that removes records which are due at any size, and has the size pass measure the rest.
final class ExpiryPass {
  private let core: StoreCore
  private let options: BlobStore.CollectionOptions
  private let control: ControlFile?
  private let tally: CollectionTally
  private let remover: RecordRemover
  private let rule: ExpiryRule
  private let sizes: SizePass
  /// When the collection began.
  private let now: UnixTime
  /// The marks of earlier passes, and those that this one leaves; nil where they cannot be used.
  private var marks: SubdirectoryMarks?
  /// The mark that the subdirectory in hand gets; nil if the next pass must walk it again.
  private var mark: SubdirectoryMarks.Mark?
  /// Whether something was left in the subdirectory in hand.
  private var subdirectoryHoldsSomething = false

  init(_ context: PassContext, _ sizes: SizePass) {
    core = context.core
    options = context.options
    control = context.control
    tally = context.tally
    remover = context.remover
    rule = context.rule
    now = context.now
    self.sizes = sizes
  }

  /// Marks are for stores that share a clock. At the root there are no subdirectories.
  private func marks(of open: OpenRoot) -> SubdirectoryMarks? {
    guard let control, leavesMarks, open.arrangement != .flat else { return nil }
    return SubdirectoryMarks(
      control, core.layout(of: open), defaultExpiration: core.defaultExpiration,
      sharing: core.configuration.access.sharing)
  }

  /// Whether later passes may pass over what this one has seen.
  private var leavesMarks: Bool {
    control?.isMapped == true && core.configuration.access.recordsCollections && !options.dryRun
  }

  /// - Parameter isTimeUp: asked once the pass has come far enough to end.
  func run(until isTimeUp: @escaping () -> Bool) throws {
    let isTimed = options.maximumTime != nil
    guard let open = try core.root.opened(), let walk = try core.walk(from: isTimed ? startPosition : nil) else {
      return
    }
    marks = marks(of: open)
    if keepsPlace { walk.smallestPart = options.smallestPart }
    let knownMarks = knowsMarks ? marks : nil
    let mustEnd = { [unowned walk] in
      self.tally.isStopped || (isTimed && self.mayEnd(walk) && isTimeUp())
    }
    walk.skim = { [unowned walk] in !mustEnd() && self.skim($0, in: walk) }
    walk.enters = { self.enters($0, open, knownMarks) }
    if knowsMarks, leavesMarks, !sizes.looksForCandidates {
      let (now, defaultExpiration) = (now, core.defaultExpiration)
      walk.packs?.passesOver = { !$0.mayHoldExpired(at: now, defaultExpiration: defaultExpiration) }
    }
    defer { (walk.skim, walk.enters) = (nil, nil) }
    while let item = try walk.next() {
      do {
        try collect(item, in: walk, open)
      } catch {
        noteFailure(error)
      }
      if mustEnd() {
        tally.report.wasCutShort = true
        break
      }
    }
    // It has come round to where it began, in the middle of a subdirectory whose beginning it has not seen.
    if walk.hasLeftOutBeginning { tally.report.wasCutShort = true }
    let wasCutShort = tally.report.wasCutShort
    if !wasCutShort, walk.packs?.hasPassedOver == true { passOverPacked() }
    if isTimed, keepsPlace { control?.nextPosition = wasCutShort ? walk.position : WalkPosition(digest: 0) }
    if wasCutShort, options.dryRun { tally.walked = walk.walkedPart }
    if !wasCutShort, tally.passedOver == 0, tally.unmeasured == 0, leavesMarks {
      control?.setWord(core.configuration.now().seconds, at: ControlLayout.lastWholePassTimeOffset)
    }
  }

  private func noteFailure(_ error: any Error) {
    mark = nil
    tally.noteFailure(error)
  }

  /// Whether a pass whose time is up may end here. Each pass must make some progress.
  ///
  /// A dry run ends between two subdirectories, so that it is known of every record whether it was met.
  private func mayEnd(_ walk: RecordWalk) -> Bool {
    walk.isBetweenEntries || (!options.dryRun && (walk.entriesBegun > 1 || walk.hasMetPart))
  }

  /// Whether a pass that is cut short tells the next one where it stopped.
  private var keepsPlace: Bool { !options.dryRun && control?.isMapped == true }

  /// Where the last pass that was cut short stopped.
  private var startPosition: WalkPosition {
    guard let control, control.isMapped else { return WalkPosition(digest: .random(in: 0 ... .max)) }
    return options.dryRun ? WalkPosition(digest: control.nextPosition.digest) : control.nextPosition
  }

  private func collect(_ item: RecordWalk.Item, in walk: RecordWalk, _ open: OpenRoot) throws {
    var stays = true
    defer { if stays, walk.isInSubdirectory { subdirectoryHoldsSomething = true } }
    switch item {
    case .record(let entry):
      // Where case does not count in names, a change of its header may look for another mark.
      defer { if let path = entry.path, path.subdirectory != walk.subdirectoryName { mark = nil } }
      stays = try !expire(entry, in: walk, open)
    case .temporary(let name):
      let byteCount = try walk.withCurrentDirectory {
        try core.removeTemporaryFile(name, in: $0, of: open, dryRun: options.dryRun)
      }
      guard let byteCount else {
        // Its writer may die, and nothing in the subdirectory would change.
        mark = nil
        break
      }
      stays = false
      tally.report.temporary += 1
      tally.report.bytesFreed.saturatingAdd(byteCount)
    case .covered(let path):
      let isGone =
        try options.dryRun
        || walk.withCurrentDirectory { try core.removeCoveredFile(at: path, in: $0, of: open) }
      // The next pass looks again.
      if isGone { stays = false } else { mark = nil }
    case .endOfSubdirectory(let name):
      defer {
        subdirectoryHoldsSomething = false
        stays = false
      }
      if try removeIfEmpty(name, open) {
        tally.report.subdirectories += 1
      } else if let mark, !walk.leavesOutBeginning {
        marks?.close(name, mark)
      }
    case .foreign(let file):
      // Records have no hidden names, in no layout.
      if FilePath(file).lastComponent?.string.utf8.first != UInt8(ascii: ".") { tally.counted.isOfOneLayout = false }
    case .foreignRecord(let record):
      // Given to another owner it is a record, and nothing in the subdirectory would change.
      mark = nil
      tally.report.foreignRecords.add(record)
    }
  }

  private func removeIfEmpty(_ subdirectory: String, _ open: OpenRoot) throws(FileError) -> Bool {
    guard !options.dryRun else { return !subdirectoryHoldsSomething }
    do {
      // Tried without knowing whether it is empty: the file system does, and refuses otherwise.
      return try open.directory.removeSubdirectory(subdirectory)
    } catch  where error.errno == .notPermitted && open.ownership.isSharedByStrangers {
      // Under a sticky root, another user's stays, empty or not.
      return false
    }
  }

  /// - Returns: whether the record is done with: it stays.
  private func skim(_ record: RecordGlance, in walk: RecordWalk) -> Bool {
    guard record.state != .expired, record.state != .live || !rule.excludes(record.header),
      !record.header.isStampedAhead(of: now)
    else { return false }
    tally.report.examined += 1
    tally.advance()
    if walk.isInSubdirectory { subdirectoryHoldsSomething = true }
    mark?.add(record.header, byteCount: record.fileSize)
    sizes.measure(
      record.header, record.state, record.size, record.fileState, record.digest, record.packed, walk.skimmedPath)
    return true
  }

  /// - Returns: whether the record was removed.
  private func expire(_ entry: RecordEntry, in walk: RecordWalk, _ open: OpenRoot) throws -> Bool {
    if let error = entry.accessError {
      countUnread(entry, error)
      throw error
    }
    tally.report.examined += 1
    tally.advance()
    var isRemoved = false
    var header = entry.header
    // A record that cannot be removed stays, and counts.
    defer { if !isRemoved { stay(entry, header) } }
    if let cause = rule.cause(toRemove: entry) {
      isRemoved = try remove(entry, for: cause, in: walk, open)
    } else if entry.state == .live || entry.state == .locked {
      header = try stampedAnew(entry)
    }
    return isRemoved
  }

  /// - Returns: whether the record is gone, or in a dry run would be.
  private func remove(
    _ entry: RecordEntry, for cause: CollectedRecord.Cause, in walk: RecordWalk, _ open: OpenRoot
  ) throws -> Bool {
    guard let path = entry.path else { return false }
    switch try remover.remove(
      path, met: entry.size, for: cause, in: walk, open, if: { rule.stillHolds(cause, for: $0) })
    {
    case .removed: return true
    case .stays: return false
    case .busy:
      tally.busy.add(.due(path, cause))
      return false
    }
  }

  /// Removes a record that was due, and busy when it was met.
  ///
  /// - Returns: whether another change still has its stripe.
  func isStillBusy(
    _ path: RecordPath, _ cause: CollectedRecord.Cause, in subdirectories: LastSubdirectory
  ) throws -> Bool {
    let removal = try remover.remove(path, met: nil, for: cause, in: subdirectories) { rule.stillHolds(cause, for: $0) }
    switch removal {
    case .busy: return true
    case .stays: return false
    case .removed(let size):
      tally.isGone(size)
      if !path.subdirectory.isEmpty, try subdirectories.open.directory.removeSubdirectory(path.subdirectory) {
        tally.report.subdirectories += 1
      }
      return false
    }
  }

  /// - Returns: the record's header, with another update time if a clock that was ahead had stamped it.
  private func stampedAnew(_ entry: RecordEntry) throws -> RecordHeader? {
    guard let path = entry.path, let header = entry.header, header.isStampedAhead(of: now) else { return entry.header }
    tally.report.stampedAhead += 1
    sizes.distrust(path.digest)
    // A header that cannot be written now is looked at again by a later pass.
    defer { mark = nil }
    // A store with a clock of its own must not stamp records that others read.
    guard !options.dryRun, core.configuration.access.recordsCollections else { return header }
    return try core.stampAnew(path) ?? header
  }

  private func countUnread(_ entry: RecordEntry, _ error: BlobStoreError) {
    if entry.isMeasured { return stay(entry, entry.header) }
    // A process without the permission to list a subdirectory never gets further. Another process with it may have
    // counted the subdirectory. If none has, limits that leave it out are better than no limits.
    if error.isLackOfPermission, control?.countersAreKnown == false { return }
    tally.unmeasured += 1
  }

  /// - Parameter header: as it is by now.
  private func stay(_ entry: RecordEntry, _ header: RecordHeader?) {
    switch (entry.state, header) {
    case (.live, let header?), (.locked, let header?): mark?.add(header, byteCount: entry.fileSize)
    case (.damaged, _): mark?.add(damaged: entry.modified, byteCount: entry.fileSize)
    // It was due and is still there, or is another record by now.
    default: mark = nil
    }
    // A file that this pass has written is no longer as it was met.
    sizes.measure(
      header, entry.state, entry.size, header == entry.header ? entry.fileState : nil, entry.path?.digest, nil,
      entry.path)
  }
}

// MARK: - Subdirectories that are known

extension ExpiryPass {
  /// Whether marks are used. A day after the last look at everything, a pass looks at everything again. It does so too
  /// while the counters are unknown, because only a whole look can tell them.
  private var knowsMarks: Bool {
    guard let control, control.isMapped, control.countersAreKnown, !options.looksAtEverything else { return false }
    let last = control.word(at: ControlLayout.lastWholePassTimeOffset)
    let now = core.configuration.now()
    // A time in the future does not count.
    return last > 0 && UnixTime(seconds: last) <= now && now < UnixTime(seconds: last).advanced(bySeconds: 86_400)
  }

  /// - Returns: whether to walk the subdirectory.
  private func enters(_ name: String, _ open: OpenRoot, _ known: SubdirectoryMarks?) -> Bool {
    mark = nil
    if !options.dryRun { open.mendSubdirectory(name) }
    guard let marks else { return true }
    do {
      guard let status = try open.directory.status(of: name), status.type == .directory else { return true }
      if let known = known?.current(name, status, at: core.configuration.now()) {
        passOver(known)
        return false
      }
      mark = marks.open(name, status, systemTime: SystemClock.unixNanoseconds())
    } catch {
      noteFailure(error)
    }
    return true
  }

  private func passOver(_ known: SubdirectoryMarks.Mark) {
    passOver(BlobStore.UsageEstimate(records: known.records, bytes: known.bytes))
  }

  /// Chunks tell neither how many records they have nor how large those are. The counters tell it of all records.
  private func passOverPacked() {
    guard let all = control?.counters else { return }
    passOver(
      BlobStore.UsageEstimate(
        records: max(0, all.records - tally.report.recordsAfter), bytes: max(0, all.bytes - tally.report.bytesAfter)))
  }

  private func passOver(_ usage: BlobStore.UsageEstimate) {
    tally.passedOver += 1
    tally.report.examined += usage.records
    tally.advance(by: usage.records)
    tally.report.recordsAfter += usage.records
    tally.report.bytesAfter.saturatingAdd(usage.bytes)
  }
}
