internal import BlobRecord
internal import Posix

/// A removal of all records of a scope, each under its key's hold, that continues after a failure.
struct Wipe {
  private let core: StoreCore
  private let open: OpenRoot
  private let scope: BlobStore.RemovalScope
  private let options: BlobStore.RemovalOptions
  private(set) var progress = BlobStore.RemovalProgress()
  private var firstFailure: (any Error)?
  private var mustSync = false
  private var busy: BusyRecords<RecordPath>

  init(
    _ core: StoreCore, in open: OpenRoot, _ scope: BlobStore.RemovalScope, _ options: BlobStore.RemovalOptions
  ) {
    self.core = core
    self.open = open
    self.scope = scope
    self.options = options
    busy = BusyRecords(waiting: core.configuration.access.lockTimeout)
    // The count is only needed to report progress, so a wipe can do without it.
    progress.expected = options.progress == nil ? nil : try? core.usageEstimate()?.records
  }

  /// Removes the records, and throws the first error at the end.
  mutating func run() throws {
    // Before anything is listed: what is published later, by a store that began earlier, is then detected.
    countWipe()
    defer { countWipe() }
    guard let walk = try Records(core).walk() else { return }
    try remove(metBy: walk)
    removeBusyRecords()
    if scope == .all, !progress.removed.wasStopped { removeHiddenFiles() }
    if mustSync {
      try open.directory.synchronize()
      try Records(core).packs(of: open)?.packs.files.synchronize()
    }
    if let firstFailure { throw firstFailure }
  }

  /// Notifies the producers of all processes that the blobs they are producing must not be stored.
  private func countWipe() {
    // If the file cannot be opened, removing a record fails too. If it is missing, no production has begun.
    (try? core.controlFiles.controlFile(of: open, makesIt: false))?.countWipe()
  }

  private mutating func remove(metBy walk: RecordWalk) throws {
    walk.files.enters = { [open] in
      open.mendSubdirectory($0)
      return true
    }
    defer { walk.files.enters = nil }
    while let item = try walk.next() {
      if case .endOfSubdirectory(let name) = item {
        attempt { wipe in try wipe.leave(name, walk) }
        continue
      }
      attempt { wipe in try wipe.remove(item, metBy: walk) }
      switch item {
      case .covered, .foreign, .foreignRecord: continue
      case .record, .temporary, .endOfSubdirectory: break
      }
      if progress.examined.isMultiple(of: Int64(BlobStore.RemovalOptions.progressStep)) { options.progress?(progress) }
      if options.isStopped?() == true {
        progress.removed.wasStopped = true
        if mustSync { try walk.withCurrentDirectory { try $0.synchronize() } }
        return
      }
    }
  }

  private mutating func attempt(_ body: (inout Wipe) throws -> Void) {
    do {
      try body(&self)
    } catch {
      firstFailure = firstFailure ?? error
    }
  }

  private mutating func remove(_ item: RecordWalk.Item, metBy walk: RecordWalk) throws {
    switch item {
    case .record(let entry):
      progress.examined += 1
      if let error = entry.accessError, scope != .all { throw error }
      guard scope.includes(entry) else { return }
      let path = try entry.knownPath()
      switch try Records(core).removeRecord(
        at: path, metBy: walk, of: open, recycling: false, if: { [scope] in scope.includes($0) })
      {
      case .removed(let removed): count(removed)
      case .busy: busy.add(path)
      case .stays: break
      }
    case .temporary(let name):
      progress.examined += 1
      guard scope == .all else { return }
      let byteCount = try walk.withCurrentDirectory { try Records(core).removeTemporaryFile(name, in: $0, of: open) }
      if let byteCount { progress.removed.add(bytes: byteCount) }
    case .endOfSubdirectory, .covered, .foreign, .foreignRecord: break
    }
  }

  private mutating func count(_ removed: RecordEntry) {
    progress.removed.add(bytes: removed.fileSize)
    let level = core.configuration.durability.level(concernsLock: removed.header?.isLocked ?? true)
    if level == .full { mustSync = true }
  }

  private func leave(_ subdirectory: String, _ walk: RecordWalk) throws {
    if mustSync { try walk.withCurrentDirectory { try $0.synchronize() } }
    if scope == .all { _ = try open.directory.removeSubdirectory(subdirectory) }
  }

  private mutating func removeBusyRecords() {
    let subdirectories = LastSubdirectory(open)
    var waiting = busy
    waiting.comeBack {
      progress.removed.wasStopped = progress.removed.wasStopped || options.isStopped?() == true
      return progress.removed.wasStopped
    } _: { path in
      var isBusy = false
      attempt { wipe in isBusy = try !wipe.hasSettled(path, subdirectories) }
      return isBusy
    }
    guard waiting.count > 0, !progress.removed.wasStopped else { return }
    firstFailure =
      firstFailure
      ?? BlobStoreError(busy: waiting.count, for: core.configuration.access.lockTimeout, at: core.root.path)
  }

  /// Removes the record unless others still hold its key, in which case it returns `false`.
  private mutating func hasSettled(_ path: RecordPath, _ subdirectories: LastSubdirectory) throws -> Bool {
    let scope = scope
    switch try Records(core).removeRecord(at: path, subdirectories, recycling: false, if: { scope.includes($0) }) {
    case .busy: return false
    case .stays: return true
    case .removed(let removed): count(removed)
    }
    if mustSync { try subdirectories.with(path.subdirectory) { try $0.synchronize() } }
    if scope == .all, !path.subdirectory.isEmpty { _ = try open.directory.removeSubdirectory(path.subdirectory) }
    return true
  }

  /// Removes the quarantine and the files of the recycling bin.
  private mutating func removeHiddenFiles() {
    attempt { wipe in
      guard let removed = try Records(wipe.core).quarantine()?.removeAll() else { return }
      wipe.progress.removed.files += removed.files
      wipe.progress.removed.bytes.saturatingAdd(removed.bytes)
      wipe.firstFailure = wipe.firstFailure ?? removed.failure
    }
    attempt { wipe in _ = try FileSupply(core: wipe.core).emptyBin() }
  }
}

extension BlobStore.RemovalReport {
  fileprivate mutating func add(bytes byteCount: Int64) {
    files += 1
    bytes.saturatingAdd(byteCount)
  }
}

extension BlobStore.RemovalScope {
  fileprivate func includes(_ entry: RecordEntry) -> Bool {
    switch self {
    case .all: true
    case .locked: entry.state == .locked
    case .unlocked: entry.state == .live || entry.state == .expired
    }
  }
}

extension RecordEntry {
  fileprivate func knownPath() throws -> RecordPath {
    guard let path else { throw accessError ?? BlobStoreError(.internalInconsistency, file) }
    return path
  }
}
