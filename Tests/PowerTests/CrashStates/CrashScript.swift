import BlobRecord
import BlobStore
import CrashStates
import FaultOperations
import Foundation
import SystemPackage
import TestSupport

/// Operations on a directory of known content.
struct CrashScript: CustomStringConvertible, Sendable {
  enum Start: String, CaseIterable {
    /// The directory does not exist.
    case nothing
    case absent, unlocked, locked, expired
    /// The states above, with a file in the recycling bin for each size that is stored.
    case warmAbsent, warmUnlocked, warmLocked

    var isWarm: Bool { [.warmAbsent, .warmUnlocked, .warmLocked].contains(self) }
  }

  static let subject = "subject"

  var start: Start
  var operations: [FaultOperation]
  var durability: BlobStore.Durability
  var format = BlobStore.RecordFormat.checksummed
  /// A Boolean value that indicates whether small records are stored in packs.
  var packs = false
  /// A Boolean value that indicates whether each collection writes a checkpoint of the packs.
  var checkpoints = false
  /// The size of the subject's previous payload.
  var oldByteCount = 3000

  var description: String {
    let place =
      packs
      ? " in \(oldByteCount > 4096 ? "a file beside packs" : "packs")\(checkpoints ? " with checkpoints" : "")" : ""
    return "\(durability) from \(start)\(place): \(operations.map(\.description).joined(separator: ", "))"
  }

  /// The recording of the operations, and their results.
  struct Run: Sendable {
    var recording: Recording
    var before: DirectoryState
    var results: [OperationResult]
  }

  static let cache = "cache"

  func settings(_ top: String) -> StoreSettings {
    var settings = StoreSettings(directory: FilePath(top + "/" + Self.cache))
    settings.durability = durability
    settings.format = format
    settings.warmsUp = start.isWarm
    settings.packs = packs
    settings.checkpoints = checkpoints
    return settings
  }

  func run() throws -> Run {
    let directory = try TemporaryDirectory(inMemory: true)
    let top = directory.path.string
    if start != .nothing { try prepare(top) }
    let before = try DirectoryState(inspecting: settings(top))
    let recorder = CallRecorder(top: top, seesMemory: packs)
    var settings = settings(top)
    settings.files = recorder.files
    let results = operations.enumerated().map { number, operation in
      recorder.begin(number)
      let result = operation.run(settings)
      recorder.end(number)
      return result
    }
    return Run(recording: recorder.recording, before: before, results: results)
  }

  private func prepare(_ top: String) throws {
    try FileManager.default.createDirectory(
      atPath: top + "/" + Self.cache, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    func store(_ key: String, _ byteCount: Int, age: Int64, locks: Int) {
      var settings = settings(top)
      settings.durability = .none
      settings.warmsUp = false
      settings.now = UnixTime(seconds: StoreSettings.standardTime - age)
      _ = FaultOperation.store(key, PayloadName("old-" + key, byteCount)).run(settings)
      for _ in 0..<locks { _ = FaultOperation.lock(key).run(settings) }
    }
    store("su-neighbour", 300, age: 10_000, locks: 2)
    store("x", 100, age: 50, locks: 0)
    store("gone", 400, age: 10_000, locks: 0)
    if start.isWarm {
      // These files differ in size and class. Their keys have low digests, so any key's record may overwrite them.
      for (key, byteCount) in [("bea", 4500), ("beb", 8000), ("bec", 10), ("bed", 3900)] {
        store(key, byteCount, age: 50, locks: 0)
        var settings = settings(top)
        settings.durability = .none
        _ = FaultOperation.remove(key).run(settings)
      }
    }
    switch start {
    case .nothing, .absent, .warmAbsent: break
    case .unlocked, .warmUnlocked: store(Self.subject, oldByteCount, age: 100, locks: 0)
    case .locked, .warmLocked: store(Self.subject, oldByteCount, age: 100, locks: 1)
    case .expired: store(Self.subject, oldByteCount, age: 5000, locks: 0)
    }
  }
}

// MARK: - Which scripts

extension CrashScript {
  private static let single: [FaultOperation] = [
    .store(subject, PayloadName("new", 5000)),
    .store(subject, PayloadName("new", 5000), locks: .one),
    .store(subject, PayloadName("new", 5000), locks: .keep),
    .storePieces(subject, PayloadName("new", 5000)),
    .storePieces(subject, PayloadName("new", 5000), locks: .keep),
    .storeVisibly(subject, PayloadName("new", 5000), locks: .keep),
    .load(subject, touching: true),
    .touch(subject),
    .lock(subject),
    .unlock(subject),
    .remove(subject),
    .removeAll(.all),
    .collect(evicting: false),
    .collect(evicting: true),
  ]

  /// Every operation on every start state, at every durability.
  static let each: [CrashScript] = BlobStore.Durability.allCases.flatMap { durability in
    Start.allCases.flatMap { start in
      single.map { CrashScript(start: start, operations: [$0], durability: durability) }
    }
  }

  private static let packed: [FaultOperation] =
    [BlobStore.LockPolicy.none, .one, .keep].flatMap { locks in
      [
        .store(subject, PayloadName("new", 700), locks: locks), .store(subject, PayloadName("new", 5000), locks: locks),
        .storePieces(subject, PayloadName("new", 700), locks: locks),
      ]
    } + single.dropFirst(5)

  /// Every operation on records in packs and files, at every durability.
  static let eachWithPacks: [CrashScript] = BlobStore.Durability.allCases.flatMap { durability in
    [(Start.nothing, 0), (.absent, 0)].flatMap { scripts(durability, $0.0, $0.1) }
      + [Start.unlocked, .locked, .expired].flatMap { start in
        [3000, 5000].flatMap { scripts(durability, start, $0) }
      }
  }

  private static func scripts(
    _ durability: BlobStore.Durability, _ start: Start, _ oldByteCount: Int
  ) -> [CrashScript] {
    packed.map {
      CrashScript(start: start, operations: [$0], durability: durability, packs: true, oldByteCount: oldByteCount)
    }
  }

  /// Returns a random sequence of operations.
  static func random(withPacks packs: Bool = false, using generator: inout SeededGenerator) -> CrashScript {
    let durability = BlobStore.Durability.allCases.randomElement(using: &generator) ?? .automatic
    let start = Start.allCases.randomElement(using: &generator) ?? .absent
    let operations = (0..<Int.random(in: 3...7, using: &generator)).map { operation(number: $0, using: &generator) }
    var script = CrashScript(start: start, operations: operations, durability: durability)
    guard packs else { return script }
    script.packs = true
    if Bool.random(using: &generator) { script.oldByteCount = 5000 }
    guard Bool.random(using: &generator) else { return script }
    script.checkpoints = true
    script.operations.insert(.collect(evicting: false), at: 0)
    script.operations.append(.collect(evicting: Bool.random(using: &generator)))
    return script
  }

  private static func operation(number: Int, using generator: inout SeededGenerator) -> FaultOperation {
    let key = [subject, subject, "su-other", "x", "elsewhere"].randomElement(using: &generator) ?? subject
    let byteCount = [0, 100, 448, 700, 5000, 9000].randomElement(using: &generator) ?? 0
    let payload = PayloadName("random-\(number)", byteCount)
    switch Int.random(in: 0..<14, using: &generator) {
    case 0, 1: return .store(key, payload)
    case 2: return .storePieces(key, payload, locks: number.isMultiple(of: 2) ? .none : .keepOrOne)
    case 3, 4: return .store(key, payload, locks: .one)
    case 5: return .store(key, payload, locks: .keep)
    case 6, 7: return .lock(key)
    case 8: return .unlock(key)
    case 9: return .touch(key)
    case 10: return .load(key, touching: true)
    case 11: return .remove(key)
    case 12: return .collect(evicting: Bool.random(using: &generator))
    default: return .removeAll(BlobStore.RemovalScope.allCases.randomElement(using: &generator) ?? .all)
    }
  }
}
