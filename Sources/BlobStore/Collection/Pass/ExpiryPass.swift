internal import BlobRecord
internal import Posix

/// A walk that removes records that are due regardless of limits, and measures the others for the size pass.
final class ExpiryPass {
  private let core: StoreCore
  private let options: BlobStore.CollectionOptions
  private let control: ControlFile?
  private let tally: CollectionTally
  private let remover: RecordRemover
  private let rule: ExpiryRule
  private let sizes: SizePass
  private let now: UnixTime
  /// The marks of earlier passes and of this one, or `nil` if marks cannot be used.
  private var marks: SubdirectoryMarks?
  /// The mark of the current subdirectory, or `nil` if the next pass must walk it again.
  private var mark: SubdirectoryMarks.Mark?
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

  /// Returns the marks, or `nil` if they cannot be used, for example in a flat directory or with a private clock.
  private func marks(of open: OpenRoot) -> SubdirectoryMarks? {
    guard let control, leavesMarks, open.arrangement != .flat else { return nil }
    return SubdirectoryMarks(
      control, core.layout(of: open), defaultExpiration: core.defaultExpiration,
      sharing: core.configuration.access.sharing)
  }

  /// A Boolean value that indicates whether later passes may skip what this pass has visited.
  private var leavesMarks: Bool {
    control?.isMapped == true && core.configuration.access.recordsCollections && !options.dryRun
  }

  /// - Parameter isTimeUp: A closure that returns whether the pass must end. It is called after some progress.
  func run(until isTimeUp: @escaping () -> Bool) throws {
    let isTimed = options.maximumTime != nil
    guard let open = try core.root.opened(), let walk = try Records(core).walk(from: isTimed ? startPosition : nil)
    else {
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
    // The walk has started in the middle of a subdirectory, and has not visited that subdirectory's beginning.
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

  /// Returns a Boolean value that indicates whether a pass may end here if its time is up. Each pass must make some
  /// progress. A dry run ends between two subdirectories, so that it is known for every record whether it was counted.
  private func mayEnd(_ walk: RecordWalk) -> Bool {
    walk.isBetweenEntries || (!options.dryRun && (walk.entriesBegun > 1 || walk.hasMetPart))
  }

  /// A Boolean value that indicates whether a pass that is cut short stores its position for the next one.
  private var keepsPlace: Bool { !options.dryRun && control?.isMapped == true }

  private var startPosition: WalkPosition {
    guard let control, control.isMapped else { return WalkPosition(digest: .random(in: 0 ... .max)) }
    return options.dryRun ? WalkPosition(digest: control.nextPosition.digest) : control.nextPosition
  }

  private func collect(_ item: RecordWalk.Item, in walk: RecordWalk, _ open: OpenRoot) throws {
    var stays = true
    defer { if stays, walk.isInSubdirectory { subdirectoryHoldsSomething = true } }
    switch item {
    case .record(let entry):
      // On a case-insensitive file system, a change of the record may look up another subdirectory's mark.
      defer { if let path = entry.path, path.subdirectory != walk.subdirectoryName { mark = nil } }
      stays = try !expire(entry, in: walk, open)
    case .temporary(let name):
      let byteCount = try walk.withCurrentDirectory {
        try Records(core).removeTemporaryFile(name, in: $0, of: open, dryRun: options.dryRun)
      }
      guard let byteCount else {
        // The file's writer may die without any change in the subdirectory.
        mark = nil
        break
      }
      stays = false
      tally.report.temporary += 1
      tally.report.bytesFreed.saturatingAdd(byteCount)
    case .covered(let path):
      let isGone =
        try options.dryRun
        || walk.withCurrentDirectory { try Records(core).removeCoveredFile(at: path, in: $0, of: open) }
      // The next pass tries again.
      if isGone { stays = false } else { mark = nil }
    case .endOfSubdirectory(let name):
      defer {
        subdirectoryHoldsSomething = false
        stays = false
      }
      if try removeIfEmpty(name, open) {
        tally.report.subdirectories += 1
      } else {
        noteRemaining(name, open)
        if let mark, !walk.leavesOutBeginning { marks?.close(name, mark) }
      }
    case .foreign(let file):
      tally.counted.noteForeign(file)
    case .foreignRecord(let record):
      // Given to another owner it is a record, and nothing in the subdirectory would change.
      mark = nil
      tally.report.foreignRecords.add(record)
    }
  }

  private func noteRemaining(_ subdirectory: String, _ open: OpenRoot) {
    guard open.arrangement == .adaptive else { return }
    if SpreadSubdirectory.isNarrowName(subdirectory) { tally.hasNarrowSubdirectory = true }
    if !options.dryRun { control?.correctPlaces(for: subdirectory) }
  }

  private func removeIfEmpty(_ subdirectory: String, _ open: OpenRoot) throws(FileError) -> Bool {
    guard !options.dryRun else { return !subdirectoryHoldsSomething }
    do {
      // Called without a check, because the file system refuses to remove a directory that is not empty.
      return try open.directory.removeSubdirectory(subdirectory)
    } catch  where error.errno == .notPermitted && open.ownership.isSharedByStrangers {
      // In a sticky root, another user's subdirectory stays even if it is empty.
      return false
    }
  }

  /// Returns `true` if the record stays and needs no further processing.
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

  private func expire(_ entry: RecordEntry, in walk: RecordWalk, _ open: OpenRoot) throws -> Bool {
    if let error = entry.accessError {
      countUnread(entry, error)
      throw error
    }
    tally.report.examined += 1
    tally.advance()
    var isRemoved = false
    var header = entry.header
    // A record that cannot be removed stays and is counted.
    defer { if !isRemoved { stay(entry, header) } }
    if let cause = rule.cause(toRemove: entry) {
      isRemoved = try remove(entry, for: cause, in: walk, open)
    } else if entry.state == .live || entry.state == .locked {
      header = try stampedAnew(entry)
    }
    return isRemoved
  }

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

  /// Removes a due record that was busy. Returns whether it is still busy.
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

  /// Returns the record's header, with a corrected update time if a clock that was ahead has stamped it.
  private func stampedAnew(_ entry: RecordEntry) throws -> RecordHeader? {
    guard let path = entry.path, let header = entry.header, header.isStampedAhead(of: now) else { return entry.header }
    tally.report.stampedAhead += 1
    sizes.distrust(path.digest)
    // A later pass checks a header that cannot be written now.
    defer { mark = nil }
    // A store with a private clock must not stamp records that others read.
    guard !options.dryRun, core.configuration.access.recordsCollections else { return header }
    return try Records(core).stampAnew(path) ?? header
  }

  private func countUnread(_ entry: RecordEntry, _ error: BlobStoreError) {
    if entry.isMeasured { return stay(entry, entry.header) }
    // Without permission to list a subdirectory, a process never gets further. Another process may have counted the
    // subdirectory; otherwise, limits that omit it are better than no limits.
    if error.isLackOfPermission, control?.countersAreKnown == false { return }
    tally.unmeasured += 1
  }

  private func stay(_ entry: RecordEntry, _ header: RecordHeader?) {
    switch (entry.state, header) {
    case (.live, let header?), (.locked, let header?): mark?.add(header, byteCount: entry.fileSize)
    case (.damaged, _): mark?.add(damaged: entry.modified, byteCount: entry.fileSize)
    // The record was due and still exists, or has been replaced.
    default: mark = nil
    }
    // If this pass has written the file, its state has changed.
    sizes.measure(
      header, entry.state, entry.size, header == entry.header ? entry.fileState : nil, entry.path?.digest, nil,
      entry.path)
  }
}

// MARK: - Subdirectories that are known

extension ExpiryPass {
  /// A Boolean value that indicates whether marks are used. A day after the last complete pass, or while the counters
  /// are unknown, the pass visits everything, because only a complete pass can determine the counters.
  private var knowsMarks: Bool {
    guard let control, control.isMapped, control.countersAreKnown, !options.looksAtEverything else { return false }
    let last = control.word(at: ControlLayout.lastWholePassTimeOffset)
    let now = core.configuration.now()
    // A time in the future does not count.
    return last > 0 && UnixTime(seconds: last) <= now && now < UnixTime(seconds: last).advanced(bySeconds: 86_400)
  }

  private func enters(_ name: String, _ open: OpenRoot, _ known: SubdirectoryMarks?) -> Bool {
    mark = nil
    if !options.dryRun { open.mendSubdirectory(name) }
    guard let marks else { return true }
    do {
      guard let status = try open.directory.status(of: name), status.type == .directory else { return true }
      if let known = known?.current(name, status, at: core.configuration.now()) {
        noteRemaining(name, open)
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

  /// Chunks contain neither the number nor the size of their records, so the counters of all records provide both.
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
