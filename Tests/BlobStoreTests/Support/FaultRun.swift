import BlobRecord
import BlobStore
import Foundation
import Logging
import Posix
import SystemPackage
import TestSupport

/// Runs a script in a new directory and in a model, while a plan makes calls fail.
struct FaultRun {
  let script: FaultScript
  let durability: BlobStore.Durability
  let plan = FaultPlan()
  /// Performs an operation; a test injects its mistake here.
  var perform: (StoreOperation, BlobStore) -> StoreResult = { $0.perform(on: $1) }

  private let directory: TemporaryDirectory
  private let clock = ManualClock()
  private let configuration: BlobStore.Configuration
  private var model: StoreModel
  private var backups: [(url: URL, bytes: Data)] = []
  private var mismatches: [String] = []
  private(set) var scriptCallCount = 0

  init(_ script: FaultScript, _ durability: BlobStore.Durability) throws {
    self.script = script
    self.durability = durability
    directory = try TemporaryDirectory(inMemory: true)
    root = directory.path.appending("cache")
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    // A new directory decides its arrangement once; the other scripts use fixed paths.
    if script.name != FaultScript.all.first?.name { configuration.layout.arrangement = .prefix }
    configuration.durability = durability
    configuration.damagePolicy = .quarantine
    configuration.limits.size = FaultScript.sizeLimit
    // Without a file of uses or a recorded configuration, whose failing calls have no visible effect; `UseSketchTests`
    // and `RecordedConfigurationTests` cover them.
    configuration.limits.eviction = .oldest
    configuration.access.recordsConfiguration = false
    configuration.limits.freeSpaceFloor = 0
    configuration.limits.collectsOnStore = false
    // Other processes do not exist, so a lock is busy only because of a fault.
    configuration.access.lockTimeout = .milliseconds(5)
    configuration.logger = Logger(label: "FaultTests") { _ in SwiftLogNoOpLogHandler() }
    let clock = clock
    configuration.now = { clock.now }
    self.configuration = configuration
    model = StoreModel(configuration, now: clock.now)
    // Creating the root is covered once.
    guard script.name != FaultScript.all.first?.name || durability != .full else { return }
    try FileManager.default.createDirectory(atPath: root.string, withIntermediateDirectories: false)
    // The wider mode is not permitted by the process's mask, so permissions have to be set explicitly.
    try FileManager.default.setAttributes(
      [.posixPermissions: durability == .full ? 0o770 : 0o700], ofItemAtPath: root.string)
    guard script.name != FaultScript.all.first?.name, let controlFile = try? Self.controlFile.get() else { return }
    try controlFile.write(to: URL(filePath: root.string + "/.blobcache"))
  }

  /// A prepared control file, because its creation is covered by one script and would double the time of the others.
  private static let controlFile = Result {
    let directory = try TemporaryDirectory(inMemory: true)
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    try BlobStore(directory: directory.path, configuration: configuration).store(Data(), for: "key")
    return try Data(contentsOf: directory.url(".blobcache"))
  }

  private let root: FilePath

  /// - Parameter finishes: A Boolean value that indicates whether the script continues after a fault.
  /// - Returns: The mismatches between the store and the model.
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
      // One collection removes all leftover files.
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
      guard model.records[key] != nil else { return }  // Its store has failed.
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
  /// The answer without the number of empty subdirectories, which a failed store may leave.
  fileprivate var comparable: StoreAnswer {
    guard case .collected(var report) = self else { return self }
    report.subdirectories = 0
    return .collected(report)
  }
}

// MARK: - After a fault

extension FaultRun {
  /// Checks the result of an operation with failed calls, and updates the model accordingly.
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
    // A file without read permission is not a candidate; one with another error might be.
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
    // A temporary file whose lock is held has a writer and is not removed.
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
    // Subdirectories are kept open once each, including the root, because it has records with one-character names.
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

  /// Returns whether an operation may succeed in spite of the failed call.
  private func absorbs(
    _ operation: StoreOperation, _ call: FaultPlan.Call, _ errno: Errno, _ expected: StoreAnswer,
    _ calls: [FaultPlan.Call]
  ) -> Bool {
    // A control file that readers may open, from an older version, is used nevertheless, with a warning.
    if call.kind == .setPermissions, call.path == root.appending(".blobcache") { return true }
    // To locate records, a first store examines the root again.
    if case .store = operation, errno == .permissionDenied, call.isLook(at: root) { return true }
    // The owner of a temporary file is checked again before its removal.
    if call.kind == .status, call.path.lastComponent?.string.hasPrefix(".tmp-") == true { return true }
    // A failed close or unlock loses nothing, an interrupted call is repeated, and a busy lock is not a failure.
    if [.close, .unlockByte, .freeStripe].contains(call.kind) || errno == .interrupted || call.isBusy(errno) {
      return true
    }
    // A page of the control file that may be no hole is read.
    if call.kind == .findData { return true }
    // The counters of a new control file are unknown if the directory cannot be read.
    let packs = root.appending(".packs")
    if case .store = operation, calls.contains(where: { $0.path == packs }),
      [.openDirectory, .listDirectory].contains(call.kind) || call.path == packs
    {
      return true
    }
    // Without a page for its mark, the next collection walks the subdirectory again.
    if case .collect = operation, call.kind == .allocateRange, call.path == root.appending(".blobcache") { return true }
    // If a file cannot be recycled, one is created or unlinked. The lookup of a leased file is repeated.
    if call.kind == .lease || call.path.string.hasPrefix(root.appending(".recycled").string) { return true }
    // Where unnamed files cannot be linked, files have a name from the start.
    if [.openUnnamed, .linkUnnamed].contains(call.kind), errno == .permissionDenied { return true }
    // If a file cannot be renamed from the bin, a new one is created.
    if [.rename, .renameExchange, .renameNoReplace].contains(call.kind), calls.contains(where: { $0.kind == .lease }) {
      return true
    }
    // Another host may have deleted the control file, so a new one is created.
    if errno == .staleNFSFileHandle, [.status, .lockByte].contains(call.kind), call.path == root.appending(".blobcache")
    {
      return true
    }
    // A displaced file that could be neither recycled nor unlinked is removed by a collection.
    if call.kind == .unlink, call.path.lastComponent?.string.hasPrefix(".tmp-") == true,
      calls.contains(where: { $0.path.string.hasPrefix(root.appending(".recycled").string) })
    {
      return true
    }
    // If a file in the recycling bin was unlinked, the operation is tried again with the free space.
    let bin = root.appending(".recycled").string
    if errno == .noSpace || errno == .diskQuotaExceeded,
      calls.contains(where: { $0.kind == .unlink && $0.path.string.hasPrefix(bin) })
    {
      return true
    }
    if [.open, .openBeneath, .openDirectory].contains(call.kind), errno == .wouldBlock { return true }
    // Without space for a control file, the directory is locked instead.
    if errno == .noSpace || errno == .diskQuotaExceeded, makesControlFile(call, calls) { return true }
    switch (operation, expected) {
    // A load succeeds if only its touch fails, and reports damage even if the policy for damage fails.
    case (.load, .blob), (.read, .blob), (_, .failure(.damaged)): return true
    // A follower's read is repeated when its data is awaited.
    case (.storeVisibly(let key, _, _, _), _):
      return [.status, .read, .lock].contains(call.kind) && call.path == file(of: key)
    case (.loadFirst, .blob(let key, _, _, _)):
      return errno == .permissionDenied || call.path == file(of: key) || call.path == root.appending(".blobcache")
    // An unreadable record is removed nevertheless, as if it were locked.
    case (.remove, _): return [.open, .openBeneath, .status, .read].contains(call.kind)
    // Like `remove`; one sound record is sufficient evidence that the directory is a cache.
    case (.removeAll(.all), _): return [.open, .openBeneath, .openDirectory, .status, .read].contains(call.kind)
    default: return false
    }
  }

  /// Returns whether a call is part of the creation of the control file.
  ///
  /// - Parameter calls: The calls of the same operation.
  private func makesControlFile(_ call: FaultPlan.Call, _ calls: [FaultPlan.Call]) -> Bool {
    guard let name = call.path.lastComponent?.string else { return false }
    if name == ".blobcache" { return ![.lockByte, .askForLock, .takeStripe].contains(call.kind) }
    if call.path == root { return call.kind == .openDirectory }
    // A store creates the temporary file of its record first.
    let temporary = calls.map(\.path).filter { path in
      [".tmp-", UnnamedFile.label].contains { path.lastComponent?.string.hasPrefix($0) == true }
    }
    return name.hasPrefix(".tmp-") && call.path != temporary.first && call.kind != .linkUnnamed
  }

  private func file(of key: BlobKey) -> FilePath {
    root.appending(model.path(of: key).relative)
  }

  /// Checks that every file is unchanged or, if permitted, as after the operation, and updates the model.
  private mutating func judgeFiles(
    _ operation: StoreOperation, _ result: StoreResult, _ failed: [FaultPlan.Call], _ before: StoreModel,
    _ after: StoreModel
  ) throws {
    let found = try contents(of: root)
    let old = before.files
    let new = after.files
    // A failed operation on several keys may have changed some of them. A sync fails after the change, and a read
    // after its reader's touch.
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
      // The old blob is removed first. A stream that cannot be removed in the end is left for a collection.
      if operation.isVisible, result.error != nil, path == operation.key.map({ BlobKey(before.path(of: $0).relative) }),
        found[path] == nil || failed.count > 1 && StoreModel.isStream(found[path])
      {
        if found[path] != nil { try FileManager.default.removeItem(atPath: root.string + "/" + path.string) }
        operation.key.map { model.records[$0] = nil }
        continue
      }
      // A written extension that is not referenced by a header has no effect.
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
