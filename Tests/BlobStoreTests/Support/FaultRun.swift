import BlobRecord
import BlobStore
import Foundation
import Logging
import Posix
import SystemPackage
import TestSupport

/// Plays a script on a fresh directory beside a model, with what a plan makes of the calls.
struct FaultRun {
  let script: FaultScript
  let durability: BlobStore.Durability
  let plan = FaultPlan()
  /// How an operation is done; a test plants its bug here.
  var perform: (StoreOperation, BlobStore) -> StoreResult = { $0.perform(on: $1) }

  private let directory: TemporaryDirectory
  private let clock = ManualClock()
  private let configuration: BlobStore.Configuration
  private var model: StoreModel
  private var backups: [(url: URL, bytes: Data)] = []
  private var mismatches: [String] = []
  /// How many calls the script made.
  private(set) var scriptCallCount = 0

  init(_ script: FaultScript, _ durability: BlobStore.Durability) throws {
    self.script = script
    self.durability = durability
    directory = try TemporaryDirectory(inMemory: true)
    root = directory.path.appending("cache")
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    // A new directory decides once, and the others' scripts have files in places of their own.
    if script.name != FaultScript.all.first?.name { configuration.layout.arrangement = .prefix }
    configuration.durability = durability
    configuration.damagePolicy = .quarantine
    configuration.limits.size = FaultScript.sizeLimit
    // No file of uses, whose calls may fail unseen: `UseSketchTests` has those.
    configuration.limits.eviction = .oldest
    configuration.limits.freeSpaceFloor = 0
    configuration.limits.collectsOnStore = false
    // Nobody else is there to wait for: only a fault makes a lock busy.
    configuration.access.lockTimeout = .milliseconds(5)
    configuration.logger = Logger(label: "FaultTests") { _ in SwiftLogNoOpLogHandler() }
    let clock = clock
    configuration.now = { clock.now }
    self.configuration = configuration
    model = StoreModel(configuration, now: clock.now)
    // Once is enough to see it made.
    guard script.name != FaultScript.all.first?.name || durability != .full else { return }
    try FileManager.default.createDirectory(atPath: root.string, withIntermediateDirectories: false)
    // Wider than the process's mask, so that permissions are set too.
    try FileManager.default.setAttributes(
      [.posixPermissions: durability == .full ? 0o770 : 0o700], ofItemAtPath: root.string)
    guard script.name != FaultScript.all.first?.name, let controlFile = try? Self.controlFile.get() else { return }
    try controlFile.write(to: URL(filePath: root.string + "/.blobcache"))
  }

  /// What a store makes for itself: one script is enough to see it made, and with the others it would take half the time.
  private static let controlFile = Result {
    let directory = try TemporaryDirectory(inMemory: true)
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    try BlobStore(directory: directory.path, configuration: configuration).store(Data(), for: "key")
    return try Data(contentsOf: directory.url(".blobcache"))
  }

  private let root: FilePath

  /// - Parameter finishes: whether the rest of the script is played after an operation that met a fault.
  /// - Returns: what was not as it has to be.
  mutating func play(finishes: Bool = true) throws -> [String] {
    mismatches = []
    do {
      let store = try BlobStore(directory: root, configuration: configuration, files: plan.files())
      var hasFailed = false
      for step in script.steps where finishes || !hasFailed {
        try prepare(step)
        guard case .operation(let operation) = step else { continue }
        let failedBefore = plan.failed.count
        let callsBefore = plan.calls.count
        let before = model
        let result = perform(operation, store)
        let failed = Array(plan.failed.dropFirst(failedBefore))
        if failed.isEmpty {
          expect(result, try expectedAnswer(operation), operation)
        } else {
          hasFailed = true
          try judge(operation, result, failed, callsBefore: callsBefore, before)
        }
        guard mismatches.isEmpty else { return mismatches }
      }
      plan.disarm()
      scriptCallCount = plan.calls.count
      if hasFailed, !finishes { expect(StoreOperation.usage.perform(on: store), model.perform(.usage), .usage) }
      // What was left over goes with one collection.
      let collection = StoreOperation.collect(dryRun: false)
      expect(collection.perform(on: store), try expectedAnswer(collection), collection)
      try expectFiles()
    }
    let leaked = openPaths(below: directory.path)
    if !leaked.isEmpty { mismatches.append("open after the store: \(leaked)") }
    for backup in backups where try Data(contentsOf: backup.url) != backup.bytes {
      mismatches.append("a hard link changed: \(backup.url.lastPathComponent)")
    }
    return mismatches
  }

  // MARK: The script's other steps

  private mutating func prepare(_ step: FaultScript.Step) throws {
    func write(_ path: BlobKey, _ bytes: Data) throws {
      let url = URL(filePath: root.string + "/" + path.string)
      try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
      try bytes.write(to: url)
    }
    switch step {
    case .operation: break
    case .advance(let seconds):
      clock.advance(by: seconds)
      model.now = clock.now
    case .temporary(let path):
      model.temporary[path] = Data("half".utf8)
      try write(path, Data("half".utf8))
    case .foreign(let path):
      model.foreign[path] = Data("somebody's".utf8)
      try write(path, Data("somebody's".utf8))
    case .damage(let key, let damage, let isAged):
      guard model.records[key] != nil else { return }  // its store met the fault
      model.records[key]?.damage = damage
      model.records[key]?.isAged = isAged
      let path = BlobKey(model.path(of: key).relative)
      try write(path, model.files[path] ?? Data())
      guard isAged else { return }
      try FileManager.default.setAttributes(
        [.modificationDate: Date(timeIntervalSince1970: Double(clock.now.seconds) - 10_000)],
        ofItemAtPath: root.string + "/" + path.string)
    case .link(let key):
      let path = BlobKey(model.path(of: key).relative)
      guard let bytes = model.files[path] else { return }
      let url = directory.url("backup-\(backups.count)")
      try FileManager.default.linkItem(atPath: root.string + "/" + path.string, toPath: url.path)
      backups.append((url, bytes))
      model.records[key]?.isLinked = true
    }
  }

  private mutating func expectedAnswer(_ operation: StoreOperation) throws -> StoreAnswer {
    guard case .collect(let dryRun) = operation, !dryRun else { return model.perform(operation) }
    let (report, faults) = model.collect(
      leaving: Set(try contents(of: root).keys), limit: configuration.limits.size)
    mismatches += faults
    return .collected(report)
  }

  private mutating func expect(_ result: StoreResult, _ expected: StoreAnswer, _ operation: StoreOperation) {
    guard result.answer.comparable != expected.comparable else { return }
    mismatches.append(
      "\(operation)\n  answered \(result.answer) \(result.error.map { "\($0)" } ?? "")\n  expected \(expected)")
  }

  private mutating func expectFiles() throws {
    let found = try contents(of: root)
    let expected = model.files
    for path in Set(found.keys).union(expected.keys) where found[path] != expected[path] {
      mismatches.append("\(path) holds \(found[path].map { "\($0.count) bytes" } ?? "nothing") it must not")
    }
  }
}

extension StoreAnswer {
  /// Without the empty subdirectories, which a failed store may leave.
  fileprivate var comparable: StoreAnswer {
    guard case .collected(var report) = self else { return self }
    report.subdirectories = 0
    return .collected(report)
  }
}

// MARK: - After a fault

extension FaultRun {
  /// Checks what came of an operation of which calls failed, and goes on from what it left.
  private mutating func judge(
    _ operation: StoreOperation, _ result: StoreResult, _ failed: [FaultPlan.Call], callsBefore: Int,
    _ before: StoreModel
  ) throws {
    let errno = plan.failedErrno
    let calls = Array(plan.calls.dropFirst(callsBefore))
    plan.disarm()
    var after = before
    let expected: StoreAnswer
    if case .collect(dryRun: false) = operation {
      expected = .collected(after.collect(leaving: Set(before.files.keys), limit: nil).0)
    } else {
      expected = after.perform(operation)
    }
    // A file that may not be read is no candidate; one that cannot be read might be one.
    if case .loadFirst = operation, errno == .permissionDenied, result.error == nil,
      result.answer.comparable != expected.comparable
    {
      let unreadable = Set(failed.map(\.path))
      after = before
      after.records = before.records.filter { !unreadable.contains(file(of: $0.key)) }
      let left = after.perform(operation)
      guard result.answer.comparable == left.comparable else {
        mismatches.append("\(operation) with \(errno) at \(failed)\n  answered \(result.answer)\n  expected \(left)")
        return
      }
      after.records.merge(before.records) { new, _ in new }
      return try judgeFiles(operation, result, failed, before, after)
    }
    let reports = result.answer.comparable != expected.comparable
    if let error = result.error, reports { judge(error, operation, failed, errno) }
    for error in result.accessErrors where error.errno != errno {
      mismatches.append("\(operation): unreadable for another reason: \(error)")
    }
    // A temporary file whose lock is held has a writer, and is left.
    let isBusy = failed.contains { $0.isBusy(errno) }
    if result.error == nil, reports, !result.answer.admitsFailure(beside: expected, result.accessErrors, isBusy) {
      mismatches.append("\(operation) with \(errno) at \(failed)\n  answered \(result.answer)\n  expected \(expected)")
    }
    if !reports {
      for call in failed where !absorbs(operation, call, errno, expected, calls) {
        mismatches.append("\(operation) does not report \(errno) at \(call): \(result.answer)")
      }
    }
    try judgeFiles(operation, result, failed, before, after)
    let bin = root.appending(".recycled").string
    let paths = openPaths(below: directory.path).filter { $0 != bin }.sorted()
    let subdirectories = paths.filter { isSubdirectory(FilePath($0)) }
    let open = paths.filter { !subdirectories.contains($0) }
    let kept = [root.string, root.appending(".blobcache").string]
    // Subdirectories are kept open, each once; as one of them the root, where records with names of one character lie.
    let isKept = [[], [kept[0]], kept, [kept[0], kept[0]], [kept[0]] + kept].contains(open)
    if !isKept || Set(subdirectories).count < subdirectories.count {
      mismatches.append("\(operation) with \(errno) at \(failed) left open: \(paths)")
    }
  }

  private func isSubdirectory(_ path: FilePath) -> Bool {
    path.removingLastComponent() == root && path.lastComponent?.string.hasPrefix(".") == false
  }

  private mutating func judge(
    _ error: BlobStoreError, _ operation: StoreOperation, _ failed: [FaultPlan.Call], _ errno: Errno
  ) {
    if failed.contains(where: { $0.isBusy(errno) }) {
      switch (operation, error.code) {
      case (_, .busy), (.collect, .collectionRunning): return
      default: break
      }
    }
    let isOfACall = failed.contains { $0.kind.manualPage == error.systemCall && $0.path == error.path }
    guard error.code == .fileSystem, error.errno == errno, isOfACall, operation.verbs.contains(error.operation),
      error.key == operation.key
    else {
      mismatches.append("\(operation) with \(errno) at \(failed) reports \(error.code) of \(error.operation): \(error)")
      return
    }
  }

  /// Whether an operation may go on as if nothing had happened.
  private func absorbs(
    _ operation: StoreOperation, _ call: FaultPlan.Call, _ errno: Errno, _ expected: StoreAnswer,
    _ calls: [FaultPlan.Call]
  ) -> Bool {
    // A control file that readers may open, as older programs made them, is used all the same; a warning says so.
    if call.kind == .setPermissions, call.path == root.appending(".blobcache") { return true }
    // Where records lie, a first store looks once more.
    if case .store = operation, errno == .permissionDenied, call.isLook(at: root) { return true }
    // Whose a temporary file is, who removes it looks at again.
    if call.kind == .status, call.path.lastComponent?.string.hasPrefix(".tmp-") == true { return true }
    // Nothing is lost by a close or when a lock stays; an interrupted call is made again; a busy lock is no failure.
    if [.close, .unlockByte, .freeStripe].contains(call.kind) || errno == .interrupted || call.isBusy(errno) {
      return true
    }
    // A file that cannot be recycled is made or unlinked. A leased one is looked up again.
    if call.kind == .lease || call.path.string.hasPrefix(root.appending(".recycled").string) { return true }
    // Where no file may be given a name later, it has one from the start.
    if [.openUnnamed, .linkUnnamed].contains(call.kind), errno == .permissionDenied { return true }
    // Where a file cannot be renamed from the bin, a new one is made.
    if [.rename, .renameExchange, .renameNoReplace].contains(call.kind), calls.contains(where: { $0.kind == .lease }) {
      return true
    }
    // Another host may have deleted it: then there is a new one.
    if errno == .staleNFSFileHandle, [.status, .lockByte].contains(call.kind), call.path == root.appending(".blobcache")
    {
      return true
    }
    // What was displaced, and could neither be recycled nor unlinked, a collection takes.
    if call.kind == .unlink, call.path.lastComponent?.string.hasPrefix(".tmp-") == true,
      calls.contains(where: { $0.path.string.hasPrefix(root.appending(".recycled").string) })
    {
      return true
    }
    // Where there was something to unlink in the recycling bin, that made room for another try.
    let bin = root.appending(".recycled").string
    if errno == .noSpace || errno == .diskQuotaExceeded,
      calls.contains(where: { $0.kind == .unlink && $0.path.string.hasPrefix(bin) })
    {
      return true
    }
    if [.open, .openBeneath, .openDirectory].contains(call.kind), errno == .wouldBlock { return true }
    // Where there is no room for a control file, the directory is locked instead.
    if errno == .noSpace || errno == .diskQuotaExceeded, makesControlFile(call, calls) { return true }
    switch (operation, expected) {
    // The touch after a load, and what the policy does with damage that the load reports.
    case (.load, .blob), (.read, .blob), (_, .failure(.damaged)): return true
    // A follower's look is made again when it is waited for.
    case (.storeVisibly(let key, _, _, _), _):
      return [.status, .read, .lock].contains(call.kind) && call.path == file(of: key)
    case (.loadFirst, .blob(let key, _, _, _)):
      return errno == .permissionDenied || call.path == file(of: key) || call.path == root.appending(".blobcache")
    // What cannot be read is removed all the same, as if it were locked.
    case (.remove, _): return [.open, .openBeneath, .status, .read].contains(call.kind)
    // As for `remove`; and one sound record elsewhere is enough to show that it is a cache.
    case (.removeAll(.all), _): return [.open, .openBeneath, .openDirectory, .status, .read].contains(call.kind)
    default: return false
    }
  }

  /// Whether a call is one of those that make the control file.
  ///
  /// - Parameter calls: those of the same operation.
  private func makesControlFile(_ call: FaultPlan.Call, _ calls: [FaultPlan.Call]) -> Bool {
    guard let name = call.path.lastComponent?.string else { return false }
    if name == ".blobcache" { return ![.lockByte, .askForLock, .takeStripe].contains(call.kind) }
    if call.path == root { return call.kind == .openDirectory }
    // A store makes the record's temporary file first.
    let temporary = calls.map(\.path).filter { path in
      [".tmp-", UnnamedFile.label].contains { path.lastComponent?.string.hasPrefix($0) == true }
    }
    return name.hasPrefix(".tmp-") && call.path != temporary.first && call.kind != .linkUnnamed
  }

  private func file(of key: BlobKey) -> FilePath {
    root.appending(model.path(of: key).relative)
  }

  /// Every file is as it was, or as the operation was to make it where that is allowed; and the model follows.
  private mutating func judgeFiles(
    _ operation: StoreOperation, _ result: StoreResult, _ failed: [FaultPlan.Call], _ before: StoreModel,
    _ after: StoreModel
  ) throws {
    let found = try contents(of: root)
    let old = before.files
    let new = after.files
    // Of many keys, some may be done. A sync that fails comes after the change, and a read after its reader's touch.
    var isRead: Bool { if case .read = operation { true } else { false } }
    let mayBeDone =
      operation.key == nil || isRead || result.error == nil || result.error?.systemCall == SystemCall.sync.manualPage
      || operation.isVisible && result.error?.operation == "load"
    let mustBeDone: Bool =
      switch operation {
      case .load, .loadFirst, .read, .removeAll, .collect: false
      default: result.error == nil
      }
    model = before
    for path in Set(found.keys).union(old.keys).union(new.keys) {
      let isTemporary = path.string.contains(".tmp-")
      if isTemporary, old[path] == nil, failed.contains(where: { $0.kind == .unlink }) {
        model.temporary[path] = found[path]
        continue
      }
      // The old blob goes at the beginning. What cannot be taken away in the end, a collection takes.
      if operation.isVisible, result.error != nil, path == operation.key.map({ BlobKey(before.path(of: $0).relative) }),
        found[path] == nil || failed.count > 1 && StoreModel.isStream(found[path])
      {
        if found[path] != nil { try FileManager.default.removeItem(atPath: root.string + "/" + path.string) }
        operation.key.map { model.records[$0] = nil }
        continue
      }
      // An extension that was written, and that no header names, is of no account.
      let hasRemainder: Bool
      if case .setExtendedData = operation {
        hasRemainder = found[path] != old[path] && StoreModel.haveSameRecord(found[path], old[path])
      } else {
        hasRemainder = false
      }
      if hasRemainder { model.adoptTail(of: path, found[path]) }
      let isOld = found[path] == old[path] || hasRemainder
      let isNew = found[path] == new[path] || (found[path] == nil && before.mayEvict(path, operation))
      guard mustBeDone ? isNew : isOld || (isNew && mayBeDone || isNew && result.error?.code == .damaged) else {
        mismatches.append(
          "\(operation) at \(failed), \(result.error.map { "\($0)" } ?? "done"): \(path) is "
            + (isOld ? "as it was" : isNew ? "changed" : "neither old nor new"))
        continue
      }
      if !isOld || mustBeDone { model.adopt(path, from: after, isPresent: found[path] != nil) }
    }
    model.subdirectories.formUnion(after.subdirectories)
  }
}
