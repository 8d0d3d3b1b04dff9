import BlobRecord
import BlobStore
import FaultOperations
import Foundation
import SystemPackage

/// The state of the operation's key before the operation.
enum StartState: String, CaseIterable {
  case absent, locked, unlocked, expired, damaged
  /// The directory does not exist.
  case nothing
  /// The record is locked, in a directory that no version of this library has changed yet.
  case withoutControlFile
  /// The recycling bin has files for every size that is stored.
  case warmAbsent, warmUnlocked, warmLocked

  static let warm: [StartState] = [.warmAbsent, .warmUnlocked, .warmLocked]
  static let pair: [StartState] = [.absent, .locked]
}

/// An operation on a directory of known content.
struct Scenario: CustomStringConvertible {
  var operation: FaultOperation
  var start: StartState
  var durability = BlobStore.Durability.automatic

  var description: String { "\(operation) on \(start), durability \(durability)" }

  /// The key of single-key operations.
  static let subject = "subject"
  static let subjectFile = "su/subject"
  static let now = StoreSettings.standardTime
  static let oldPayload = PayloadName("old", 3000)
  static let newPayload = PayloadName("new", 5000)

  /// Other keys: an expired, locked neighbour in the subdirectory; a key in another subdirectory; a locked key at the
  /// root; a key that the collector removes.
  static let others = ["su-neighbour", "other", "x", "gone"]

  func settings(_ directory: String) -> StoreSettings {
    var settings = StoreSettings(directory: FilePath(directory))
    settings.now = UnixTime(seconds: Self.now)
    settings.durability = durability
    settings.warmsUp = StartState.warm.contains(start)
    return settings
  }
}

extension StartState {
  func build(at directory: String) throws {
    guard self != .nothing else { return }
    try FileManager.default.createDirectory(
      atPath: directory, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    func store(_ key: String, _ payload: PayloadName, age: Int64, locks: Int) throws {
      var settings = StoreSettings(directory: FilePath(directory))
      settings.now = UnixTime(seconds: Scenario.now - age)
      settings.durability = .none
      let store = try settings.makeStore { $0.layout.arrangement = .prefix }
      try store.store(payload.bytes, for: BlobKey(key))
      for _ in 0..<locks { try store.lock(BlobKey(key)) }
    }
    try store("su-neighbour", PayloadName("neighbour", 300), age: 10_000, locks: 2)
    try store("other", PayloadName("other", 200), age: 50, locks: 0)
    try store("x", PayloadName("x", 100), age: 50, locks: 1)
    try store("gone", PayloadName("gone", 400), age: 10_000, locks: 0)
    if Self.warm.contains(self) {
      // The digests of these keys are low, so a record of any key may overwrite their files.
      let dead = [("bea", 4500), ("beb", 8000), ("bec", 600), ("bed", 2500), ("bef", 3500)]
      for (key, byteCount) in dead { try store(key, PayloadName("warm", byteCount), age: 50, locks: 0) }
      var settings = StoreSettings(directory: FilePath(directory))
      settings.durability = .none
      let store = try settings.makeStore()
      for (key, _) in dead { try store.remove(BlobKey(key)) }
    }
    switch self {
    case .absent, .nothing, .warmAbsent: break
    case .locked, .withoutControlFile, .warmLocked: try store(Scenario.subject, Scenario.oldPayload, age: 100, locks: 1)
    case .unlocked, .warmUnlocked: try store(Scenario.subject, Scenario.oldPayload, age: 100, locks: 0)
    case .expired: try store(Scenario.subject, Scenario.oldPayload, age: 5000, locks: 0)
    case .damaged:
      try store(Scenario.subject, Scenario.oldPayload, age: 100, locks: 0)
      let file = URL(filePath: directory).appending(path: Scenario.subjectFile)
      var bytes = try Data(contentsOf: file)
      // The damage is in the header, which every operation on the key reads.
      bytes[bytes.startIndex + 20] ^= 0x10
      let handle = try FileHandle(forWritingTo: file)
      try handle.write(contentsOf: bytes)
      try handle.close()
    }
    if self == .withoutControlFile { try FileManager.default.removeItem(atPath: directory + "/.blobcache") }
  }
}

/// Directories in every start state, created once for a test and copied for each of its runs.
final class StartDirectories: Sendable {
  private let workspace: Workspace

  init() throws {
    workspace = try Workspace()
    for state in StartState.allCases { try state.build(at: workspace.path(state.rawValue)) }
  }

  func copy(_ state: StartState, to directory: String) throws {
    guard state != .nothing else { return }
    try FileManager.default.copyItem(atPath: workspace.path(state.rawValue), toPath: directory)
  }
}
