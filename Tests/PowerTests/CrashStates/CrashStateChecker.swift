import BlobStore
import CrashStates
import FaultOperations
import Foundation
import SystemPackage
import TestSupport

/// The effort that a script is checked with.
struct CrashEffort: Sendable {
  /// The maximum number of states to enumerate at a point of the script.
  var statesPerPoint: Int
  /// The size of the random sample of these states that is checked.
  var mostPerPoint = Int.max
  /// The share of the points that is checked, chosen at random.
  var pointShare = 1.0
}

/// Builds every state that a power cut may leave of a script, and checks it with the library.
struct CrashStateChecker {
  let script: CrashScript
  let model: DiskModel
  private let effort: CrashEffort
  private(set) var states = 0
  private(set) var violations: [String] = []

  init(_ script: CrashScript, _ model: DiskModel, _ effort: CrashEffort) {
    self.effort = effort
    self.script = script
    self.model = model
  }

  mutating func check(_ run: CrashScript.Run, using generator: inout SeededGenerator) throws {
    let keys = ["subject", "su-neighbour", "su-other", "x", "elsewhere", "gone"]
    var oracle = PowerCutOracle(script.durability, keys: keys, on: run.before, packs: script.packs)
    // With packs, single pages of the control file may be lost. Without packs, it is lost as a whole.
    let lost: Set<String> = script.packs ? [] : [".blobcache"]
    var disk = CrashStates(of: run.recording.base, under: model, leavingOut: lost)
    // Each state is checked against the promises made until then.
    var seen: Set<DiskTree> = []
    let directory = try TemporaryDirectory(inMemory: true)
    for (number, event) in run.recording.events.enumerated() {
      switch event {
      case .change(let change): disk.apply(change)
      case .began(let operation):
        seen = []
        oracle.begin(script.operations[operation])
      case .ended(let operation):
        seen = []
        violations += oracle.end(script.operations[operation], run.results[operation]).map { "\(script): \($0)" }
      }
      guard effort.pointShare == 1 || .random(in: 0..<1, using: &generator) < effort.pointShare else { continue }
      for tree in disk.states(limit: effort.statesPerPoint, most: effort.mostPerPoint, using: &generator)
      where seen.insert(tree).inserted {
        let found = try look(at: tree, oracle, in: directory)
        states += 1
        violations += found.map { "\(model), \(script), behind event \(number), \(event): \($0)" }
      }
    }
  }

  private func look(
    at tree: DiskTree, _ oracle: PowerCutOracle, in directory: TemporaryDirectory
  ) throws -> [String] {
    let top = directory.path.string + "/\(states)"
    try tree.build(at: top)
    // Remaining files are removed with the directory that contains them.
    defer { try? FileManager.default.removeItem(atPath: top) }
    var settings = script.settings(top)
    if script.packs { try NextBoot.begin(in: settings.directory.string) }
    let state = try DirectoryState(inspecting: settings)
    var found = oracle.violations(in: state)
    settings.durability = .none
    let store = try settings.makeStore()
    for key in oracle.keys { found += try loadViolations(key, state, store) }
    if states % 8 == 0 {
      found += try Sequel.violations(in: state, store, settings)
      if script.packs { found += try secondBootViolations(settings) }
    }
    return found
  }

  /// After another boot without losses, the packs have the same content: no discarded record reappears.
  private func secondBootViolations(_ settings: StoreSettings) throws -> [String] {
    let before = try DirectoryState(inspecting: settings)
    try NextBoot.begin(in: settings.directory.string)
    let after = try DirectoryState(inspecting: settings)
    if before.keys.mapValues(\.withoutTime) == after.keys.mapValues(\.withoutTime) { return [] }
    return ["behind the second boot, \(after.keys), not \(before.keys)"]
  }

  /// A load must agree with an inspection of all bytes.
  private func loadViolations(_ key: String, _ state: DirectoryState, _ store: BlobStore) throws -> [String] {
    let load = FaultOperation.load(key, touching: false)
    let result = load.run(store)
    let steps = OperationModel.steps(load, on: key, in: state[key], isDisturbed: false)
    if steps.contains(where: { $0.result == result.essence }) { return [] }
    if state[key] == .damaged, result.outcome == .notFound, try hasExpired(key, store) { return [] }
    return ["\(load) of \(state[key]) answers \(result)"]
  }

  /// Spec/Semantics.md, L5: an expired record is not found, whatever else is wrong with it. A name may refer to another
  /// key's earlier record. An enumeration, which also checks expiry first, reports it as expired.
  private func hasExpired(_ key: String, _ store: BlobStore) throws -> Bool {
    try store.records().contains { $0.key?.string == key && $0.state == .expired }
  }
}
