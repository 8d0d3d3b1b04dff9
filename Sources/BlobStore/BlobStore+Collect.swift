internal import BlobRecord
internal import Logging
internal import PosixFiles
internal import Synchronization

extension BlobStore {
  /// Makes one collection: removes what has expired, what dead writers and damage have left, empty subdirectories, and
  /// then, if there is a size limit and it is exceeded, unlocked records, oldest update time first, down to nine tenths
  /// of the target.
  ///
  /// Which file to remove is decided without a lock, and decided again under the record's stripe. Readers and writers
  /// of other keys are never kept waiting. Records that cannot be removed are logged and counted, and left.
  ///
  /// - Throws: `collectionRunning` if this store is at it already; `fileSystem` if the pass could not be made.
  /// - Complexity: one walk over all records; with a limit that is exceeded, two, or more where the update times of
  ///   very many records lie close together and those of others far away. Memory does not grow with their number.
  @discardableResult
  public func collect(_ options: CollectionOptions = CollectionOptions()) throws(BlobStoreError) -> CollectionReport {
    try reporting("collect") {
      guard isCollecting.enter() else {
        throw BlobStoreError(.collectionRunning, "this store is collecting already", path: root.path)
      }
      defer { isCollecting.leave() }
      let release = try collectorLock(makesControlFile: !options.dryRun)
      defer { release() }
      let start = ContinuousClock.now
      let pass = CollectionPass(store: self, options: options)
      try correctingCounters {
        try pass.run(since: start)
        return pass.enumeration
      }
      let duration = start.duration(to: .now).components
      pass.report.seconds = Double(duration.seconds) + Double(duration.attoseconds) / 1e18
      return pass.report
    }
  }
}

extension BlobStore {
  /// Keeps other processes from collecting this directory, until the closure that is returned is called.
  ///
  /// - Throws: `collectionRunning` if one is at it.
  private func collectorLock(makesControlFile: Bool) throws -> () -> Void {
    guard let root = try root.opened() else { return {} }
    func openControlFile() throws -> ControlFile? {
      do {
        return try stripes.controlFile(of: root, makesIt: makesControlFile)
      } catch  where !makesControlFile {
        // Who removes nothing needs no lock, so what lies there instead of a control file is no hindrance.
        return nil
      }
    }
    let byte = ControlLayout.collectorByte..<ControlLayout.collectorByte + 1
    while let control = try openControlFile() {
      switch try control.tryLock(byte, in: root) {
      case true: return { control.unlock(byte) }
      case false:
        throw BlobStoreError(
          .collectionRunning, "another process is collecting this directory", path: root.directory.path)
      case nil: root.forget(control)
      }
    }
    // No control file, and none to be made: then nobody else can tell, and removals are judged one by one anyway.
    return {}
  }
}

/// One at a time.
final class CollectionGate: Sendable {
  private let isEntered = Atomic(false)

  func enter() -> Bool { isEntered.exchange(true, ordering: .acquiring) == false }
  func leave() { isEntered.store(false, ordering: .releasing) }
}

/// One collection under way.
private final class CollectionPass {
  let store: BlobStore
  let options: CollectionOptions
  var report: CollectionReport
  private var plan = EvictionPlan<RecordEntry>()
  /// Whether something was left in the subdirectory that is being walked.
  private var subdirectoryHoldsSomething = false
  /// What is left and what was removed, as the counters count it.
  private var counted = BlobStore.Enumeration(left: UsageEstimate())

  /// The same, if all was seen.
  var enumeration: BlobStore.Enumeration? {
    options.dryRun || report.wasCutShort || report.failed > 0 ? nil : counted
  }

  init(store: BlobStore, options: CollectionOptions) {
    self.store = store
    self.options = options
    report = CollectionReport(directory: store.directory)
    report.dryRun = options.dryRun
  }

  func run(since start: ContinuousClock.Instant) throws {
    let isOver: (() -> Bool)? = options.maximumTime.map { maximum in { start.duration(to: .now) >= maximum } }
    try expire(until: isOver)
    let limit = store.configuration.sizeLimit
    if report.wasCutShort, limit != nil { try measureAll() }
    try trimQuarantine()
    if let limit { try evict(toKeep: try target(for: limit)) }
  }

  private func trimQuarantine() throws {
    guard let quarantine = try store.quarantine() else { return }
    let trimmed = try quarantine.trim(dryRun: options.dryRun)
    report.damaged += trimmed.files
    report.bytesFreed.saturatingAdd(trimmed.bytes)
    report.bytesAfter.saturatingAdd(trimmed.bytesLeft)
  }

  /// Bytes that may stay: the limit, or what the volume can spare, whichever is less.
  private func target(for limit: Int64) throws -> Int64 {
    guard let root = try store.root.opened() else { return limit }
    let space = try root.directory.volumeSpace()
    let floor = store.configuration.freeSpaceFloor ?? min(space.total / 10, 4 << 30)
    let (sum, overflow) = space.available.addingReportingOverflow(report.bytesAfter)
    return max(0, min(limit, overflow ? .max : sum - floor))
  }
}

// MARK: - Expiry

extension CollectionPass {
  /// - Parameter isOver: whether the time is up; nil for as long as it takes.
  private func expire(until isOver: (() -> Bool)?) throws {
    guard let isOver else {
      return try expire(including: { _ in true }, until: { false })
    }
    let start = UInt64.random(in: 0 ... .max)
    try expire(including: { KeyDigest.digest(ofFileName: $0) >= start }, until: isOver)
    guard !report.wasCutShort else { return }
    try expire(including: { KeyDigest.digest(ofFileName: $0) < start }, until: isOver)
  }

  /// One walk that removes what is due whatever the size, and measures what stays.
  private func expire(including includes: @escaping (String) -> Bool, until isOver: () -> Bool) throws {
    guard let root = try store.root.opened(), let walk = try store.walk(includes: includes) else { return }
    while let item = try walk.next() {
      surviving { try collect(item, in: walk, root) }
      if isOver() {
        report.wasCutShort = true
        return
      }
    }
  }

  private func collect(_ item: RecordWalk.Item, in walk: RecordWalk, _ root: RootDirectory.Opened) throws {
    var stays = true
    defer { if stays, walk.isInSubdirectory { subdirectoryHoldsSomething = true } }
    switch item {
    case .record(let entry):
      stays = try !expire(entry, in: walk, root)
    case .temporary(let name):
      let byteCount = try walk.withCurrentDirectory {
        try store.removeTemporaryFile(name, in: $0, of: root, dryRun: options.dryRun)
      }
      guard let byteCount else { break }
      stays = false
      report.temporary += 1
      report.bytesFreed.saturatingAdd(byteCount)
    case .endOfSubdirectory(let name):
      defer {
        subdirectoryHoldsSomething = false
        stays = false
      }
      // Tried without knowing whether it is empty: the file system does, and refuses otherwise.
      let isRemoved = try options.dryRun ? !subdirectoryHoldsSomething : root.directory.removeSubdirectory(name)
      if isRemoved { report.subdirectories += 1 }
    case .foreign: break
    }
  }

  /// - Returns: whether the record was removed.
  private func expire(_ entry: RecordEntry, in walk: RecordWalk, _ root: RootDirectory.Opened) throws -> Bool {
    if let error = entry.accessError { throw error }
    report.examined += 1
    var isRemoved = false
    // What cannot be removed stays, and counts.
    defer { if !isRemoved { stay(entry) } }
    switch entry.state {
    case .expired:
      isRemoved = try remove(entry, in: walk, root) { $0.state == .expired }
      if isRemoved { report.expired += 1 }
    case .damaged:
      let rule = DamageRule(now: store.configuration.now(), defaultExpiration: store.defaultExpiration)
      guard rule.isDue(entry) else { break }
      isRemoved = try remove(entry, in: walk, root, rule.isDue)
      if isRemoved { report.damaged += 1 }
    case .live, .locked, .unreadable: break
    }
    return isRemoved
  }

  private func stay(_ entry: RecordEntry) {
    report.bytesAfter.saturatingAdd(entry.fileSize)
    counted.left = counted.left + UsageEstimate(entry.size)
    if let header = entry.header, isEvictable(entry) {
      plan.measure(header.lastUpdate, bytes: entry.fileSize)
    }
  }

  /// Whether the size pass may remove the record. It may have expired since the expiry pass, or have been left by one
  /// that was cut short; but what a dry run has counted as expired already is gone for it.
  private func isEvictable(_ entry: RecordEntry) -> Bool {
    switch entry.state {
    case .live: true
    case .expired: !options.dryRun || report.wasCutShort
    case .locked, .damaged, .unreadable: false
    }
  }

  /// Counts all records, after a pass that was cut short has counted some.
  private func measureAll() throws {
    plan = EvictionPlan()
    report.bytesAfter = 0
    guard let walk = try store.walk() else { return }
    while let item = try walk.next() {
      if case .record(let entry) = item, entry.state != .unreadable { stay(entry) }
    }
  }
}

/// Which damaged files a collection may remove: those of ours that nobody has written for a while.
private struct DamageRule {
  let now: UnixTime
  let defaultExpiration: Int64

  func isDue(_ entry: RecordEntry) -> Bool {
    guard entry.state == .damaged, now > entry.modified.advanced(bySeconds: defaultExpiration) else { return false }
    switch entry.damage {
    case .notEnoughDataToGetHeader, .invalidHeaderCRC, .wrongPayloadSize, .keyMismatch: return true
    // What a power cut makes of a record; anything else without the magic may be somebody's file.
    case .magicMismatch: return entry.storedHeader?.isAllZero ?? false
    // A later version's record, or one that is still being written.
    default: return false
    }
  }
}

extension StoredHeader {
  fileprivate var isAllZero: Bool {
    magic == 0 && headerSize == 0 && refCount == 0 && reserved1 == 0 && ttl == 0 && updateTime == 0
      && payloadSize == 0 && reserved2 == 0 && reserved3 == 0 && reserved4 == 0 && flags.isEmpty && crc == 0
  }
}

// MARK: - Size

extension CollectionPass {
  private func evict(toKeep target: Int64) throws {
    guard report.bytesAfter > target else { return }
    // Down to nine tenths, rounded down, so that the next store does not call for the next collection.
    let tenth = target / 10 + (target.isMultiple(of: 10) ? 0 : 1)
    guard plan.start(freeing: report.bytesAfter - (target - tenth)) else { return }
    guard let root = try store.root.opened() else { return }
    var needsWalk = true
    while needsWalk {
      guard let walk = try store.walk() else { return }
      while let item = try walk.next() {
        guard case .record(let entry) = item, isEvictable(entry), let header = entry.header else { continue }
        guard case .evict = plan.decide(header.lastUpdate, bytes: entry.fileSize, entry) else { continue }
        surviving { try evict(entry, in: walk, root) }
      }
      let rest = plan.finishWalk()
      for entry in rest.candidates {
        guard plan.bytesToFree > 0 else { break }
        surviving { try evict(entry, in: nil, root) }
      }
      needsWalk = rest.needsWalk
    }
  }

  /// Removes a record that is still as old as it was, and not locked.
  private func evict(_ entry: RecordEntry, in walk: RecordWalk?, _ root: RootDirectory.Opened) throws {
    let isDue = { (current: RecordEntry) in
      (current.state == .live || current.state == .expired) && current.header?.updateTime == entry.header?.updateTime
    }
    guard try remove(entry, in: walk, root, isDue) else { return }
    report.evicted += 1
    counted.left = counted.left - UsageEstimate(entry.size)
    report.bytesAfter.saturatingAdd(-entry.fileSize)
    plan.didFree(bytes: entry.fileSize)
  }

  // MARK: Both

  /// - Parameter walk: where the entry was met just now; nil if that was a while ago.
  private func remove(
    _ entry: RecordEntry, in walk: RecordWalk?, _ root: RootDirectory.Opened, _ isDue: (RecordEntry) -> Bool
  ) throws -> Bool {
    if !options.dryRun {
      let removed: RecordEntry?
      if let walk {
        removed = try walk.withCurrentDirectory { try store.removeRecord(entry, in: $0, of: root, if: isDue) }
      } else {
        guard let directory = try root.openSubdirectory(entry.path?.subdirectory ?? "") else { return false }
        removed = try store.removeRecord(entry, in: directory, of: root, if: isDue)
      }
      guard let removed else { return false }
      counted.removed = counted.removed + UsageEstimate(removed.size)
    }
    report.bytesFreed.saturatingAdd(entry.fileSize)
    return true
  }

  /// One file that cannot be read or removed does not end the pass: it is logged and counted.
  private func surviving(_ body: () throws -> Void) {
    do {
      try body()
    } catch {
      report.failed += 1
      store.configuration.logger.warning("\(BlobStoreError(error, operation: "collect", key: nil))")
    }
  }
}
