import BlobRecord
import BlobStore
import FaultOperations
import Foundation
import SystemPackage
import TestSupport

/// The state of the operation's key before the operation, in a directory with packs.
enum PackStart: String, CaseIterable {
  /// The directory has no packs yet.
  case nothing
  case absent, packed
  /// The record is stored in a chunk for durable records.
  case lockedDurably
  /// The record is too large for a pack.
  case file, lockedFile
  /// Each record has its own chunk behind a checkpoint, and one of the chunks has a dead record.
  case smallChunks
}

/// An operation on a directory with packs.
struct PackScenario: CustomStringConvertible {
  var operation: FaultOperation
  var start: PackStart
  var durability = BlobStore.Durability.none

  var description: String { "\(operation) on \(start), durability \(durability)" }

  static let subject = Scenario.subject
  static let small = PayloadName("small", 700)
  static let large = PayloadName("large", 5000)

  static let operations: [FaultOperation] = [
    .store(subject, small), .store(subject, small, locks: .one), .store(subject, large, locks: .keep),
    .load(subject, touching: true), .touch(subject), .lock(subject), .unlock(subject), .remove(subject),
    .storePieces(subject, small), .collect(evicting: false), .removeAll(.locked),
  ]

  static let all: [PackScenario] =
    operations.flatMap { operation in PackStart.allCases.map { PackScenario(operation: operation, start: $0) } }
    + [PackStart.packed, .lockedDurably, .file].flatMap { start in
      [FaultOperation.store(subject, small), .store(subject, large), .remove(subject), .lock(subject)].map {
        PackScenario(operation: $0, start: start, durability: .full)
      }
    }

  func settings(_ directory: String) -> StoreSettings {
    var settings = StoreSettings(directory: FilePath(directory))
    settings.durability = durability
    settings.packs = true
    settings.checkpoints = start == .smallChunks
    settings.recycles = false
    return settings
  }
}

extension PackStart {
  func build(at directory: String) throws {
    try FileManager.default.createDirectory(
      atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    var settings = PackScenario(operation: .verify, start: self).settings(directory)
    settings.now = UnixTime(seconds: StoreSettings.standardTime - 100)
    settings.packs = self != .nothing
    let store = try settings.makeStore()
    for (key, byteCount) in PackDirectory.others {
      try store.store(PayloadName(key, byteCount).bytes, for: BlobKey(key))
    }
    let key = BlobKey(PackScenario.subject)
    switch self {
    case .nothing, .absent: break
    case .packed: try store.store(PayloadName("old", 300).bytes, for: key)
    case .lockedDurably: try store.store(PayloadName("old", 300).bytes, for: key, locks: .one)
    case .file: try store.store(PayloadName("old", 6000).bytes, for: key)
    case .lockedFile: try store.store(PayloadName("old", 6000).bytes, for: key, locks: .one)
    case .smallChunks:
      try store.store(PayloadName("gone", 300).bytes, for: "gone")
      try store.store(PayloadName("old", 300).bytes, for: key)
      _ = try store.collect()
      try store.remove("gone")
    }
  }
}

/// A copy of a start state, and its content.
struct PackDirectory {
  let workspace: Workspace
  let scenario: PackScenario
  let path: String

  static let others = [("other", 200), ("another", 5000)]

  init(_ scenario: PackScenario, copying directory: String) throws {
    workspace = try Workspace()
    self.scenario = scenario
    path = workspace.path("cache")
    try FileManager.default.copyItem(atPath: directory, toPath: path)
  }

  var settings: StoreSettings { scenario.settings(path) }

  /// Returns a copy of the directory without its index, which is rebuilt.
  func withoutIndex() throws -> PackDirectory {
    let copy = try PackDirectory(scenario, copying: path)
    // The index does not exist if the process was killed before it was created.
    try? FileManager.default.removeItem(atPath: copy.path + "/.packs/index")
    return copy
  }

  /// Runs the operation in a separate process.
  ///
  /// - Parameter step: The step before which the process is killed, or 0 to let it finish.
  func run(_ operation: FaultOperation? = nil, killedBefore step: Int) throws -> ProbeReport? {
    let result = workspace.path("result")
    try? FileManager.default.removeItem(atPath: result)  // An earlier run may have left it.
    _ = try ChildProcess.spawn(
      [
        FaultTools.probe, path, "--now", String(StoreSettings.standardTime), "--durability",
        scenario.durability.rawValue, "--recycles", "false", "--packs", "true", "--checkpoints",
        String(settings.checkpoints), "--kill-at", String(step), "--result", result,
      ] + (operation ?? scenario.operation).arguments)
    guard let data = FileManager.default.contents(atPath: result) else { return nil }
    return try JSONDecoder().decode(ProbeReport.self, from: data)
  }

  /// Returns the subject's state as another process loads it, and checks that other keys are unchanged.
  func state() throws -> (subject: KeyState, flaws: [String]) {
    let store = try settings.makeStore()
    var flaws: [String] = []
    for (key, byteCount) in Self.others
    where try store.load(BlobKey(key), touching: false)?.payload
      != PayloadName(key, byteCount).bytes
    {
      flaws.append("\(key) is lost")
    }
    guard let blob = try store.load(BlobKey(PackScenario.subject), touching: false) else { return (.absent, flaws) }
    let header = blob.header
    return (
      .record(
        payload: PayloadDigest.of(blob.payload), refCount: header.refCount, ttl: header.ttl,
        updateTime: header.updateTime), flaws
    )
  }

  func audit() throws -> PackAudit { try PackAudit(of: FilePath(path)) }
}
