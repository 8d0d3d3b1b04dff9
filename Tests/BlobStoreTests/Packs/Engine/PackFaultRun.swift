import BlobRecord
import Foundation
import Logging
import Posix
import SystemPackage
import TestSupport

@testable import BlobStore

/// Plays the single-key operations of a script on a directory with packs and on a model.
struct PackFaultRun {
  let script: FaultScript
  let plan = FaultPlan()
  private let directory: TemporaryDirectory
  private let clock = ManualClock()
  private let configuration: BlobStore.Configuration
  private var model: StoreModel
  private var keys: Set<BlobKey> = []
  private var mismatches: [String] = []
  /// The number of calls that the script made.
  private(set) var callCount = 0

  init(_ script: FaultScript, _ durability: BlobStore.Durability) throws {
    self.script = script
    directory = try TemporaryDirectory(inMemory: true)
    var configuration = BlobStore.Configuration()
    configuration.layout.arrangement = .prefix
    configuration.durability = durability
    configuration.limits.freeSpaceFloor = 0
    configuration.limits.collectsOnStore = false
    configuration.recycling = .off
    configuration.packing = .upTo(1000)
    // The failing calls of a recorded configuration have no visible effect; `RecordedConfigurationTests` covers them.
    configuration.access.recordsConfiguration = false
    // A lock is busy only because of a fault.
    configuration.access.lockTimeout = .milliseconds(5)
    configuration.logger = Logger(label: "PackFaultTests") { _ in SwiftLogNoOpLogHandler() }
    let clock = clock
    configuration.now = { clock.now }
    self.configuration = configuration
    model = StoreModel(configuration, now: clock.now)
    // Other tests cover the creation of the files of every directory. A collection makes the counters known.
    var plain = configuration
    plain.packing = .off
    let first = try BlobStore(directory: root, configuration: plain)
    try first.store(Data(), for: "first")
    try first.collect()
    _ = model.perform(.store("first", Data(), ttl: nil, locks: .none))
    keys.insert("first")
  }

  private var root: FilePath { directory.path.appending("cache") }

  /// - Returns: The differences from the expected state.
  mutating func play(makesIndexAnew: Bool) throws -> [String] {
    let store = try BlobStore(directory: root, configuration: configuration, files: plan.files())
    for step in script.steps where mismatches.isEmpty {
      switch step {
      case .advance(let seconds):
        clock.advance(by: seconds)
        model.now = clock.now
      case .operation(let operation) where operation.key != nil && !operation.isVisible:
        try play(operation, store)
      case .operation, .damage, .temporary, .foreign, .link: break
      }
    }
    guard mismatches.isEmpty else { return mismatches }
    callCount = plan.calls.count
    plan.disarm()
    store.core.stripes.checkInvariants()
    // The next change of a stripe finishes a failed change.
    for key in keys {
      let expected = model.perform(.touch(key))
      let result = StoreOperation.touch(key).perform(on: store)
      if result.answer != expected { mismatches.append("at last, touch \(key.string): \(result), not \(expected)") }
    }
    try compare("at last")
    let audit = try PackAudit(of: root)
    mismatches += audit.announced.map { "at last: still announced: \($0)" }
    mismatches += audit.heldStripes.map { "at last: stripe \($0) is held" }
    guard makesIndexAnew else { return mismatches }
    try FileManager.default.removeItem(atPath: root.string + "/.packs/index")
    // The times of use are lost with the index. A rebuilt index contains the times of the stores instead.
    try compare("by another index", comparesTimes: false)
    return mismatches
  }

  private mutating func play(_ operation: StoreOperation, _ store: BlobStore) throws {
    operation.key.map { _ = keys.insert($0) }
    let failedBefore = plan.failed.count
    let before = model
    let result = operation.perform(on: store)
    let failed = Array(plan.failed.dropFirst(failedBefore))
    let expected = model.perform(operation)
    guard !failed.isEmpty else {
      if result.answer != expected { mismatches.append("\(operation): \(result), not \(expected)") }
      return
    }
    let errno = plan.failedErrno
    plan.disarm()
    let event = "\(operation) with \(errno) at \(failed)"
    if let error = result.error, result.answer != expected {
      let isBusy = error.code == .busy && failed.contains { $0.isBusy(errno) }
      if error.code != .fileSystem || error.errno != errno, !isBusy {
        mismatches.append("\(event) reports \(error)")
      }
    } else if result.answer != expected {
      mismatches.append("\(event) answers \(result.answer), not \(expected)")
    }
    try adopt(event, operation, isDone: result.error == nil, from: before)
    if result.error != nil || result.answer == expected { try compareCounters(event, store) }
    try compare(event)
  }

  /// Applies an operation to the model: all of it, or nothing if it failed. The touch of a load may be lost, and a
  /// failed sync follows the change.
  private mutating func adopt(
    _ event: String, _ operation: StoreOperation, isDone: Bool, from before: StoreModel
  ) throws {
    guard let key = operation.key else { return }
    let isTouch: Bool =
      switch operation {
      case .load, .read: true
      default: false
      }
    guard !isDone || isTouch else { return }
    let found = StoreOperation.load(key, touching: false).perform(on: try observer()).answer
    var old = before
    var new = model
    if found == new.perform(.load(key, touching: false)) { return }
    if found == old.perform(.load(key, touching: false)) {
      model = before
      return
    }
    mismatches.append("\(event): \(key.string) is neither old nor new: \(found)")
  }

  /// Returns a store of another process, whose calls do not fail.
  private func observer() throws -> BlobStore { try BlobStore(directory: root, configuration: configuration) }

  private mutating func compare(_ event: String, comparesTimes: Bool = true) throws {
    let observer = try observer()
    for key in keys {
      var copy = model
      let expected = copy.perform(.load(key, touching: false))
      let found = StoreOperation.load(key, touching: false).perform(on: observer)
      if comparesTimes ? found.answer != expected : found.answer.payload != expected.payload {
        mismatches.append("\(event): \(key.string) is \(found), not \(expected)")
      }
    }
    mismatches += try PackAudit(of: root).flaws.map { "\(event): \($0)" }
  }

  private mutating func compareCounters(_ event: String, _ store: BlobStore) throws {
    var expected = BlobStore.UsageEstimate()
    for record in model.records.values {
      let byteCount = StoreModel.headerSize + Int64(record.payload.count + record.tail.count)
      expected.records += 1
      expected.bytes += byteCount
      guard record.header.refCount > 0 else { continue }
      expected.lockedRecords += 1
      expected.lockedBytes += byteCount
    }
    let found = try store.usageEstimate()
    if found != expected { mismatches.append("\(event): counted \(String(describing: found)), not \(expected)") }
  }
}

extension StoreAnswer {
  fileprivate var payload: Data? { if case .blob(_, let payload, _, _) = self { payload } else { nil } }
}
