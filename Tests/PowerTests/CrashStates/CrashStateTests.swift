import BlobStore
import CrashStates
import Dispatch
import FaultOperations
import Synchronization
import TestSupport
import Testing

/// Promise 10: the disks that a power cut may leave at any point of any operation, by models of file systems.
@Suite(.serialized) struct CrashStateTests {
  struct Sum: Sendable {
    var scripts = 0
    var states = 0
    var violations: [String] = []
  }

  static let seed = SeededGenerator.announcedSeed(for: "CrashStateTests")
  static let states = TestLength.count(short: 20_000, long: 2_000_000)
  static let effort = CrashEffort(statesPerPoint: TestLength.isShort ? 4 : 16)

  @Test func everyCrashStateKeepsThePromises() async throws {
    try await Self.check(
      CrashScript.each, then: { CrashScript.random(using: &$0) }, states: Self.states, Self.effort, seed: Self.seed)
  }

  static func check(
    _ scripts: [CrashScript], then next: (inout SeededGenerator) -> CrashScript, states: Int, _ effort: CrashEffort,
    seed: UInt64
  ) async throws {
    let start = ContinuousClock.now
    var sum = try await check(scripts, effort, seed: seed)
    var round: UInt64 = 1
    while sum.states < states {
      var generator = SeededGenerator(seed: seed &+ round)
      let more = try await check((0..<64).map { _ in next(&generator) }, effort, seed: seed &+ round &* 1_000_003)
      sum.scripts += more.scripts
      sum.states += more.states
      sum.violations += more.violations
      round += 1
    }
    print(
      "crash states: \(sum.states) of \(sum.scripts) scripts in \(start.duration(to: .now)),",
      "\(sum.violations.count) violations")
    for violation in sum.violations.prefix(40) { Issue.record(Comment(rawValue: violation)) }
    #expect(sum.violations.isEmpty)
  }

  /// The journal truncates a recycled file, and its data is synced later: the file keeps the truncated length.
  @Test func aFileThatWasCutStaysCut() throws {
    let script = CrashScript(
      start: .warmAbsent,
      operations: [
        .store("su-other", PayloadName("new", 0)), .collect(evicting: false), .lock("x"), .lock("su-other"),
      ], durability: .automatic)
    try Self.expectNone(script, under: .ext4)
  }

  /// The name is on the medium, but its file has the previous content: a record of another key, which has expired.
  @Test func anExpiredRecordUnderAnotherKeysNameIsNotFound() throws {
    let script = CrashScript(
      start: .warmAbsent,
      operations: [
        .lock(CrashScript.subject), .store("elsewhere", PayloadName("new", 448)), .collect(evicting: false),
        .store(CrashScript.subject, PayloadName("new", 448), locks: .keep), .store("x", PayloadName("new", 100)),
      ], durability: .automatic)
    try Self.expectNone(script, under: .ext4)
  }

  // MARK: - Planted bugs

  /// The effort for a single script.
  static let closeEffort = CrashEffort(statesPerPoint: 48)

  static let store = FaultOperation.store(CrashScript.subject, PayloadName("new", 5000))

  /// A rename before the data is on the medium loses the old blob.
  @Test(arguments: [BlobStore.Durability.barrier, .full]) func aMissingFileSyncIsFound(
    durability: BlobStore.Durability
  ) throws {
    try Self.expectFound(CrashScript(start: .unlocked, operations: [Self.store], durability: durability)) {
      $0.withoutSyncs(ofDirectories: false)
    }
  }

  @Test(arguments: [
    store, .store(CrashScript.subject, PayloadName("new", 5000), locks: .one), .remove(CrashScript.subject),
  ])
  func aMissingDirectorySyncIsFound(operation: FaultOperation) throws {
    let start = if case .remove = operation { CrashScript.Start.locked } else { CrashScript.Start.absent }
    try Self.expectFound(CrashScript(start: start, operations: [operation], durability: .full)) {
      $0.withoutSyncs(ofDirectories: true)
    }
  }

  /// A valid header proves nothing about the payload.
  @Test func aMissingPayloadChecksumIsFound() throws {
    var script = CrashScript(start: .unlocked, operations: [Self.store], durability: .none)
    script.format = .reference
    #expect(try !Self.violations(script, Self.closeEffort) { $0 }.isEmpty)
    script.format = .checksummed
    try Self.expectNone(script)
  }

  static func expectFound(
    _ script: CrashScript, _ effort: CrashEffort = closeEffort, plant: (Recording) -> Recording
  ) throws {
    #expect(try !violations(script, effort, plant: plant).isEmpty)
    // The violation must disappear without the bug. Otherwise, the checker has found something else.
    try expectNone(script, effort)
  }

  static func expectNone(
    _ script: CrashScript, _ effort: CrashEffort = closeEffort, under model: DiskModel = .weak
  ) throws {
    for violation in try violations(script, effort, under: model, plant: { $0 }).prefix(3) {
      Issue.record(Comment(rawValue: violation))
    }
  }

  private static func violations(
    _ script: CrashScript, _ effort: CrashEffort, under model: DiskModel = .weak, plant: (Recording) -> Recording
  ) throws -> [String] {
    var run = try script.run()
    run.recording = plant(run.recording)
    var generator = SeededGenerator(seed: 1)
    var checker = CrashStateChecker(script, model, effort)
    try checker.check(run, using: &generator)
    return checker.violations
  }

  // MARK: - Running

  /// Checks the scripts on all cores.
  private static func check(_ scripts: [CrashScript], _ effort: CrashEffort, seed: UInt64) async throws -> Sum {
    try await withCheckedThrowingContinuation { continuation in
      DispatchQueue.global().async {
        let sum = Mutex(Result<Sum, any Error>.success(Sum()))
        DispatchQueue.concurrentPerform(iterations: scripts.count) { index in
          let result = Result { try check(scripts[index], effort, seed: seed &+ UInt64(index)) }
          sum.withLock { sum in
            sum = sum.flatMap { soFar in
              result.map {
                Sum(
                  scripts: soFar.scripts + 1, states: soFar.states + $0.states,
                  violations: soFar.violations + $0.violations)
              }
            }
          }
        }
        continuation.resume(with: sum.withLock { $0 })
      }
    }
  }

  private static func check(_ script: CrashScript, _ effort: CrashEffort, seed: UInt64) throws -> Sum {
    let run = try script.run()
    var sum = Sum()
    for model in DiskModel.allCases {
      var generator = SeededGenerator(seed: seed)
      var checker = CrashStateChecker(script, model, effort)
      try checker.check(run, using: &generator)
      sum.states += checker.states
      sum.violations += checker.violations
    }
    return sum
  }
}
