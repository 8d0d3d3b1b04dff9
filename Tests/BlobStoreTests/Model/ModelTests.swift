import BlobRecord
import BlobStore
import Foundation
import Logging
import Posix
import SystemPackage
import TestSupport
import Testing

/// Applies random operations to a store and to a dictionary: all answers, and all bytes of the directory, must agree.
@Suite struct ModelTests {
  /// The number of operations for each of the 24 layouts and record formats: about 48,000 in all.
  static let operationsPerRun = 2_000

  @Test(.timeLimit(.minutes(30)), arguments: RecordNaming.allCases, [nil] + RecordArrangement.allCases)
  func storeIsADictionaryWithClockAndLocks(naming: RecordNaming, arrangement: RecordArrangement?) throws {
    let seed = SeededGenerator.announcedSeed(
      for: "storeIsADictionaryWithClockAndLocks", environment: ProcessInfo.processInfo.environment)
    for format in [BlobStore.RecordFormat.checksummed, .reference] {
      for eviction in [nil, .oldest, .frequency] as [BlobStore.Eviction?] {
        var configuration = ModelRun.configuration(
          BlobStore.Configuration.Layout(naming: naming, arrangement: arrangement), format)
        if let eviction { configuration.evict(eviction) }
        var run = try ModelRun(seed: seed, configuration: configuration)
        let mismatches = try run.compare(operations: Self.operationsPerRun / 3)
        #expect(mismatches.isEmpty, "seed \(seed), \(naming), \(arrangement as Any), \(format)")
      }
    }
  }

  /// The same test with small records in packs, where records move between a pack and a file.
  @Test(.timeLimit(.minutes(30)), arguments: [RecordNaming.encoded, .sha256], [600, 8192])
  func aStoreThatPacksIsTheSameDictionary(naming: RecordNaming, largest: Int) throws {
    let seed = SeededGenerator.announcedSeed(
      for: "aStoreThatPacksIsTheSameDictionary", environment: ProcessInfo.processInfo.environment)
    for eviction in [nil, .oldest, .frequency] as [BlobStore.Eviction?] {
      for arrangement in RecordArrangement.allCases {
        var configuration = ModelRun.configuration(
          BlobStore.Configuration.Layout(naming: naming, arrangement: arrangement), .checksummed)
        configuration.packing = .upTo(largest)
        if let eviction { configuration.evict(eviction) }
        var run = try ModelRun(seed: seed, configuration: configuration)
        let mismatches = try run.compare(operations: Self.operationsPerRun / 3)
        #expect(mismatches.isEmpty, "seed \(seed), \(naming), \(arrangement), \(eviction as Any)")
      }
    }
  }

  /// A nonblocking lookup that answers gives the answer of an ordinary one. The test makes the touches that it defers.
  @Test(.enabled(if: SystemCall.hasCachedLookups)) func looksThatNeverWaitAreOfTheSameDictionary() throws {
    let seed = SeededGenerator.announcedSeed(
      for: "looksThatNeverWaitAreOfTheSameDictionary", environment: ProcessInfo.processInfo.environment)
    var run = try ModelRun(
      seed: seed, configuration: ModelRun.configuration(.init(), .checksummed), inMemory: false)
    var answers = 0
    run.perform = { operation, store in
      guard let answer = try operation.performIfCached(on: store) else { return operation.perform(on: store) }
      answers += 1
      return StoreResult(answer: answer)
    }
    let mismatches = try run.compare(operations: Self.operationsPerRun)
    #expect(mismatches.isEmpty, "seed \(seed)")
    #expect(answers > Self.operationsPerRun / 20)
  }

  /// The harness detects a planted fault: locks that are acknowledged but not stored.
  @Test func modelFindsADroppedLock() throws {
    var run = try ModelRun(seed: 7, configuration: ModelRun.configuration(.init(), .checksummed))
    var isDropped = false
    run.perform = { operation, store in
      if case .lock(let key) = operation, try store.contains(key) {
        isDropped = true
        return StoreResult(answer: .outcome(.done))
      }
      return operation.perform(on: store)
    }
    #expect(try !run.compare(operations: 2_000).isEmpty)
    #expect(isDropped)
  }

  /// The harness detects a missing touch, too, although no answer shows it immediately.
  @Test func modelFindsALostTouch() throws {
    var run = try ModelRun(seed: 7, configuration: ModelRun.configuration(.init(), .checksummed))
    run.perform = { operation, store in
      guard case .load(let key, _) = operation else { return operation.perform(on: store) }
      return StoreOperation.load(key, touching: false).perform(on: store)
    }
    #expect(try !run.compare(operations: 2_000).isEmpty)
  }

  @Test func aSeedReplaysItsOperations() throws {
    func operations(_ seed: UInt64) -> [String] {
      var operations = RandomOperations(seed: seed, naming: .encoded)
      return (0..<100).map { _ in operations.next().description }
    }
    #expect(operations(1) == operations(1))
    #expect(operations(1) != operations(2))
  }
}

extension BlobStore.Configuration {
  /// Sets a limit that a few dozen records exceed.
  fileprivate mutating func evict(_ eviction: BlobStore.Eviction) {
    limits.size = 20_100
    limits.eviction = eviction
    // Long-lived records ensure that some are left to evict.
    expiry.defaultTimeToLive = .seconds(100_000)
  }
}

/// A store together with its model.
private struct ModelRun {
  private let directory: TemporaryDirectory
  private let clock = ManualClock()
  private let configuration: BlobStore.Configuration
  private var store: BlobStore
  private var model: StoreModel
  private var operations: RandomOperations
  /// Hard links to records, as `cp -al` creates them, and their contents.
  private var backups: [(url: URL, bytes: Data)] = []
  /// Performs an operation; a test plants its fault here.
  var perform: (StoreOperation, BlobStore) throws -> StoreResult = { $0.perform(on: $1) }

  static func configuration(
    _ layout: BlobStore.Configuration.Layout, _ format: BlobStore.RecordFormat
  ) -> BlobStore.Configuration {
    var configuration = BlobStore.Configuration()
    configuration.layout = layout
    configuration.format = format
    configuration.durability = .none
    configuration.limits.payload = 20_000
    configuration.limits.freeSpaceFloor = 0
    configuration.limits.collectsOnStore = false
    return configuration
  }

  init(seed: UInt64, configuration: BlobStore.Configuration, inMemory: Bool = true) throws {
    directory = try TemporaryDirectory(inMemory: inMemory)
    var configuration = configuration
    let clock = clock
    configuration.now = { clock.now }
    self.configuration = configuration
    store = try BlobStore(directory: directory.path.appending("cache"), configuration: configuration)
    model = StoreModel(configuration, now: clock.now)
    operations = RandomOperations(seed: seed, naming: configuration.layout.naming)
  }

  /// - Returns: The first mismatches, or an empty array if store and model agree.
  mutating func compare(operations count: Int) throws -> [String] {
    var history: [String] = []
    for index in 0..<count {
      let step = operations.clockStep(model)
      clock.advance(by: step)
      model.now = clock.now
      let operation = operations.next()
      history.append("\(step == 0 ? "" : "clock \(step); ")\(operation)")
      var mismatches = try compare(operation)
      if index % 20 == 0 || index == count - 1 { mismatches += try compareDirectory() }
      guard mismatches.isEmpty else {
        return ["operation \(index)"] + mismatches + ["after"] + history.suffix(8)
      }
      if index % 97 == 96 { store = try BlobStore(directory: store.directory, configuration: configuration) }
      if index % 211 == 210 { try makeBackup() }
    }
    return backups.filter { (try? Data(contentsOf: $0.url)) != $0.bytes }.map { "a hard link changed: \($0.url.path)" }
  }

  private mutating func compare(_ operation: StoreOperation) throws -> [String] {
    let result = try perform(operation, store)
    let expected: StoreAnswer
    var mismatches: [String] = []
    if case .collect(dryRun: false) = operation {
      let (report, faults) = model.collect(
        leaving: try remaining(), limit: configuration.limits.size)
      expected = .collected(report)
      mismatches += faults
    } else if case .collect(dryRun: true) = operation, configuration.limits.size != nil {
      return []  // the next collection shows what it would evict
    } else {
      expected = model.perform(operation)
    }
    if result.answer != expected {
      mismatches.append("\(operation)\n  answered \(result.answer)\n  expected \(expected)")
    }
    return mismatches
  }

  /// Compares all records, as the store and the file system report them.
  private mutating func compareDirectory() throws -> [String] {
    var mismatches = try compare(.records(prefix: "")) + compare(.usage)
    let found = try contents(of: store.directory)
    let expected = model.files
    for path in Set(found.keys).union(expected.keys) where found[path] != expected[path] {
      mismatches.append("\(path): \(found[path].map { "\($0.count) bytes" } ?? "absent")")
    }
    return mismatches
  }

  /// Returns the file paths of all records, including the paths that packed records would have.
  private func remaining() throws -> Set<BlobKey> {
    let packed = try store.records().filter { $0.packed != nil }.compactMap(\.key)
    return Set(try contents(of: store.directory).keys).union(packed.map { BlobKey(model.path(of: $0).relative) })
  }

  private mutating func makeBackup() throws {
    let name = "backup-\(UUID().uuidString)"
    try FileManager.default.createDirectory(at: directory.url(name), withIntermediateDirectories: false)
    for (index, (path, bytes)) in model.files.sorted(by: { BlobKey.precedes($0.key, $1.key) }).enumerated() {
      let url = directory.url("\(name)/\(index)")
      try FileManager.default.linkItem(atPath: store.directory.string + "/" + path.string, toPath: url.path)
      backups.append((url, bytes))
    }
    for (key, record) in model.records where !record.isPacked { model.records[key]?.isLinked = true }
  }
}

extension StoreOperation {
  /// Performs the operation as a nonblocking lookup, and returns `nil` if that has no answer.
  fileprivate func performIfCached(on store: BlobStore) throws -> StoreAnswer? {
    switch self {
    case .load(let key, let touching):
      guard let path = try? store.path(of: key, for: "load") else { return nil }
      var receipt = LoadReceipt()
      guard case .known(let blob) = store.loadIfCached(key, at: path, touching: touching, &receipt) else { return nil }
      if let time = receipt.owedTouch { _ = try store.refresh(key, to: time) }
      return blob.map { .blob($0.key, $0.payload, $0.header, extendedData: $0.extendedData) } ?? .nothing
    case .header(let key):
      guard case .known(let header) = store.headerIfCached(for: key) else { return nil }
      return header.map { .header($0) } ?? .nothing
    case .contains(let key):
      guard case .known(let header) = store.headerIfCached(for: key) else { return nil }
      return .flag(header != nil)
    default: return nil
    }
  }
}
