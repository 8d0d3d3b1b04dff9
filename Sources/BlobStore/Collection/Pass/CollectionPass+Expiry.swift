internal import BlobRecord
internal import Posix
internal import SystemPackage

/// The expiry pass: what is due whatever the size, and how much stays.
extension CollectionPass {
  /// One walk that removes what is due whatever the size, and measures what stays.
  ///
  /// - Parameter isTimeUp: asked once a subdirectory was done at least.
  func expire(until isTimeUp: () -> Bool) throws {
    let isTimed = options.maximumTime != nil
    guard let open = try store.root.opened(), let walk = try store.walk(from: isTimed ? startPosition : nil) else {
      return
    }
    let knownMarks = knowsMarks ? marks : nil
    // Not escaping: the walk ends with this function.
    try withoutActuallyEscaping(isTimeUp) { isTimeUp in
      let mustEnd = { [unowned walk] in
        self.isStopped || (isTimed && self.mayEnd(walk) && isTimeUp())
      }
      walk.skim = { [unowned walk] in !mustEnd() && self.skim($0, in: walk) }
      walk.enters = { self.enters($0, open, knownMarks) }
      defer { (walk.skim, walk.enters) = (nil, nil) }
      while let item = try walk.next() {
        surviving { try collect(item, in: walk, open) }
        if mustEnd() {
          report.wasCutShort = true
          break
        }
      }
    }
    if isTimed, !options.dryRun { startPosition = report.wasCutShort ? walk.position : 0 }
    if report.wasCutShort, options.dryRun { walked = walk.walkedPart }
    if !report.wasCutShort, passedOver == 0, unmeasured == 0, marks != nil {
      control?.setWord(store.configuration.now().seconds, at: ControlLayout.lastWholePassTimeOffset)
    }
  }

  /// Whether the walk has come far enough for a pass whose time is up to end, which is to get somewhere each time.
  ///
  /// A dry run ends between two subdirectories: then it is known of every record whether it was met.
  private func mayEnd(_ walk: RecordWalk) -> Bool {
    walk.isBetweenEntries || (!options.dryRun && walk.entriesBegun > 1)
  }

  /// Where the last pass that was cut short stopped.
  private var startPosition: UInt64 {
    get {
      guard let control, control.isMapped else { return .random(in: 0 ... .max) }
      return UInt64(bitPattern: control.word(at: ControlLayout.nextNameOffset))
    }
    set {
      guard let control, control.isMapped else { return }
      control.setWord(Int64(bitPattern: newValue), at: ControlLayout.nextNameOffset)
    }
  }

  private func collect(_ item: RecordWalk.Item, in walk: RecordWalk, _ open: OpenRoot) throws {
    var stays = true
    defer { if stays, walk.isInSubdirectory { subdirectoryHoldsSomething = true } }
    switch item {
    case .record(let entry):
      // Where case does not count in names, what changes its header may look for another mark.
      defer { if let path = entry.path, path.subdirectory != walk.subdirectoryName { mark = nil } }
      stays = try !expire(entry, in: walk, open)
    case .temporary(let name):
      let byteCount = try walk.withCurrentDirectory {
        try store.removeTemporaryFile(name, in: $0, of: open, dryRun: options.dryRun)
      }
      guard let byteCount else {
        // Its writer may die, and nothing in the subdirectory would change.
        mark = nil
        break
      }
      stays = false
      report.temporary += 1
      report.bytesFreed.saturatingAdd(byteCount)
    case .endOfSubdirectory(let name):
      defer {
        subdirectoryHoldsSomething = false
        stays = false
      }
      if try removeIfEmpty(name, open) {
        report.subdirectories += 1
      } else if let mark {
        marks?.close(name, mark)
      }
    case .foreign(let file):
      // Records have no hidden names, in no layout.
      if FilePath(file).lastComponent?.string.utf8.first != UInt8(ascii: ".") { hasMetForeign = true }
    case .foreignRecord(let record):
      // Given to another owner it is a record, and nothing in the subdirectory would change.
      mark = nil
      report.foreignRecords.add(record)
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

  /// - Returns: whether that was all there is to the record: it stays.
  private func skim(_ record: RecordGlance, in walk: RecordWalk) -> Bool {
    guard record.state != .expired, record.state != .live || !options.excludes(record.header),
      !record.header.isStampedAhead(of: now)
    else { return false }
    report.examined += 1
    advance()
    subdirectoryHoldsSomething = true
    mark?.add(record.header, byteCount: record.fileSize)
    stay(record.header, record.state, record.size, record.fileState, walk.skimmedPath)
    return true
  }

  /// - Returns: whether the record was removed.
  private func expire(_ entry: RecordEntry, in walk: RecordWalk, _ open: OpenRoot) throws -> Bool {
    if let error = entry.accessError {
      countUnread(entry, error)
      throw error
    }
    report.examined += 1
    advance()
    var isRemoved = false
    var header = entry.header
    // What cannot be removed stays, and counts.
    defer { if !isRemoved { stay(entry, header) } }
    switch entry.state {
    case .expired:
      isRemoved = try remove(entry, for: .expired, in: walk, open) { $0.state == .expired }
    case .damaged:
      let rule = DamageRule(now: store.configuration.now(), defaultExpiration: store.defaultExpiration)
      guard rule.isDue(entry), let damage = entry.damage else { break }
      isRemoved = try remove(entry, for: .damaged(damage), in: walk, open, rule.isDue)
    case .live where options.excludes(entry.header):
      isRemoved = try remove(entry, for: .evicted, in: walk, open) { [options] in
        // It may have expired since.
        ($0.state == .live || $0.state == .expired) && options.excludes($0.header)
      }
    case .live, .locked: header = try stampedAnew(entry)
    case .unreadable: break
    }
    return isRemoved
  }

  /// - Returns: the record's header, with another update time if a clock that was ahead had stamped it.
  private func stampedAnew(_ entry: RecordEntry) throws -> RecordHeader? {
    guard let path = entry.path, let header = entry.header, header.isStampedAhead(of: now) else { return entry.header }
    report.stampedAhead += 1
    // What cannot be written now, a later pass is to look at again.
    defer { mark = nil }
    // A clock of its own is not to stamp what others go by.
    guard !options.dryRun, store.configuration.access.recordsCollections else { return header }
    return try store.stampAnew(path) ?? header
  }

  /// What a record counts as stored at.
  func stamp(of header: RecordHeader) -> UnixTime { header.isStampedAhead(of: now) ? now : header.lastUpdate }

  /// Counts what cannot be read, as far as that can be done.
  private func countUnread(_ entry: RecordEntry, _ error: BlobStoreError) {
    if entry.isMeasured { return stay(entry, entry.header) }
    // Who may not list a subdirectory never will. Those who may have counted it, or nobody has, and then limits that leave
    // it out are better than none.
    if error.isLackOfPermission, control?.countersAreKnown == false { return }
    unmeasured += 1
  }

  /// - Parameter header: as it is by now.
  private func stay(_ entry: RecordEntry, _ header: RecordHeader?) {
    switch (entry.state, header) {
    case (.live, let header?), (.locked, let header?): mark?.add(header, byteCount: entry.fileSize)
    case (.damaged, _): mark?.add(damaged: entry.modified, byteCount: entry.fileSize)
    // It was to be removed, and is still there, or is another by now.
    default: mark = nil
    }
    // What this pass has written itself is no longer the file that it met.
    stay(header, entry.state, entry.size, header == entry.header ? entry.fileState : nil, entry.path)
  }

  /// - Parameter path: asked for only if the record may have to go.
  private func stay(
    _ header: RecordHeader?, _ state: RecordState, _ size: RecordSize, _ fileState: FileState?,
    _ path: @autoclosure () -> RecordPath?
  ) {
    report.bytesAfter.saturatingAdd(size.bytes)
    report.recordsAfter += 1
    counted.left = counted.left + BlobStore.UsageEstimate(size)
    guard hasLimit, let header, isEvictable(state) else { return }
    let time = stamp(of: header)
    plan.measure(time, bytes: size.bytes)
    guard oldest?.concerns(time) == true, let path = path() else { return }
    oldest?.add(Victim(path, header, usedAt: time, size, fileState), plan.histogram)
  }

  /// Whether the size pass may remove the record. It may have expired since the expiry pass, or have been left by one
  /// that was cut short; but what a dry run has counted as removed already is gone for it.
  func isEvictable(_ state: RecordState) -> Bool {
    switch state {
    case .live: true
    case .expired: !options.dryRun || report.wasCutShort
    case .locked, .damaged, .unreadable: false
    }
  }

  /// Whether a dry run that was cut short has counted a record as removed, which is still there.
  func isCountedAsRemoved(_ entry: RecordEntry) -> Bool {
    guard let walked, let path = entry.path, walked.contains(path) else { return false }
    return switch entry.state {
    case .expired: true
    case .damaged: DamageRule(now: store.configuration.now(), defaultExpiration: store.defaultExpiration).isDue(entry)
    case .live: options.excludes(entry.header)
    case .locked, .unreadable: false
    }
  }

  /// Counts all records, after a pass that has not looked at all.
  func measureAll() throws {
    plan = EvictionPlan()
    oldest = OldestRecords(capacity: options.rememberedRecords)
    report.bytesAfter = quarantineBytes
    report.recordsAfter = 0
    mark = nil
    guard let walk = try store.walk() else { return }
    walk.skim = { [unowned walk] in
      guard !self.isStopped, self.walked == nil else { return false }
      self.stay($0.header, $0.state, $0.size, $0.fileState, walk.skimmedPath)
      return true
    }
    while !isStopped, let item = try walk.next() {
      if case .record(let entry) = item, entry.isMeasured, !isCountedAsRemoved(entry) {
        stay(entry, entry.header)
      }
    }
  }
}

// MARK: - Subdirectories that are known

extension CollectionPass {
  /// Whether marks are gone by: a day after everything was looked at, it is again. So it is while nobody knows how much there
  /// is: only who looks at everything can tell.
  private var knowsMarks: Bool {
    guard let control, control.isMapped, control.countersAreKnown, !options.looksAtEverything else { return false }
    let last = control.word(at: ControlLayout.lastWholePassTimeOffset)
    let now = store.configuration.now()
    // A time in the future is none.
    return last > 0 && UnixTime(seconds: last) <= now && now < UnixTime(seconds: last).advanced(bySeconds: 86_400)
  }

  /// - Returns: whether to walk the subdirectory.
  private func enters(_ name: String, _ open: OpenRoot, _ known: SubdirectoryLedger?) -> Bool {
    mark = nil
    if !options.dryRun { open.mendSubdirectory(name) }
    guard let marks else { return true }
    var isToBeWalked = true
    surviving {
      guard let status = try open.directory.status(of: name), status.type == .directory else { return }
      if let known = known?.current(name, status, at: store.configuration.now()) {
        isToBeWalked = false
        passOver(known)
      } else {
        mark = marks.open(name, status, systemTime: SystemClock.unixNanoseconds())
      }
    }
    return isToBeWalked
  }

  private func passOver(_ known: SubdirectoryLedger.Mark) {
    passedOver += 1
    report.examined += known.records
    advance(by: known.records)
    report.recordsAfter += known.records
    report.bytesAfter.saturatingAdd(known.bytes)
  }
}
