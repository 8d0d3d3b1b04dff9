import BlobRecord
import BlobStore
import FaultOperations
import Foundation
import SystemPackage
import TestSupport

/// How the key that is operated on stands before, in a directory with packs.
enum PackStart: String, CaseIterable {
  /// There are no packs yet.
  case nothing
  case absent, packed
  /// In a chunk for durable records.
  case lockedDurably
  /// Too large for a pack.
  case file, lockedFile
  /// Each record in a chunk of its own, one of which has a dead one, behind a checkpoint.
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
  /// Makes a directory in this state.
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

/// One copy of a start state, and what lies in it.
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

  /// The directory as one without its index, which is made anew.
  func withoutIndex() throws -> PackDirectory {
    let copy = try PackDirectory(scenario, copying: path)
    // There is none where the process was killed before it was made.
    try? FileManager.default.removeItem(atPath: copy.path + "/.packs/index")
    return copy
  }

  /// Runs the operation in a process of its own.
  ///
  /// - Parameter step: before which it is killed; 0 for none.
  func run(_ operation: FaultOperation? = nil, killedBefore step: Int) throws -> ProbeReport? {
    let result = workspace.path("result")
    try? FileManager.default.removeItem(atPath: result)  // of an earlier run, if there was one
    _ = try ChildProcess.spawn(
      [
        FaultTools.probe, path, "--now", String(StoreSettings.standardTime), "--durability",
        scenario.durability.rawValue, "--recycles", "false", "--packs", "true", "--checkpoints",
        String(settings.checkpoints), "--kill-at", String(step), "--result", result,
      ] + (operation ?? scenario.operation).arguments)
    guard let data = FileManager.default.contents(atPath: result) else { return nil }
    return try JSONDecoder().decode(ProbeReport.self, from: data)
  }

  /// How the subject stands, as another process loads it; and that the others are as they were.
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
