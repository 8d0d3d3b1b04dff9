import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Every call of every operation fails once: the operation reports that error, and has no side effect.
///
/// Serialized, because descriptors are counted. BLOBCACHE_TEST_LONG=1 tries every error at every call. Otherwise,
/// each call at full durability, which includes the calls of all levels, fails with `errorsPerCall` seeded errors.
@Suite(.serialized) struct FaultTests {
  static let errors: [Errno] = [
    .ioError, .noSpace, .diskQuotaExceeded, .readOnlyFileSystem, .permissionDenied, .tooManyOpenFiles,
    .tooManyOpenFilesInSystem, .noMemory, .interrupted, .resourceTemporarilyUnavailable, .staleNFSFileHandle,
    .resourceBusy,
  ]
  static let errorsPerCall = 3
  static let durabilities: [BlobStore.Durability] = [.none, .automatic, .full]
  static let isLong = ProcessInfo.processInfo.environment["BLOBCACHE_TEST_LONG"] == "1"

  /// A fault, together with a flag that indicates whether the rest of the script is played after it.
  struct Case: CustomStringConvertible {
    var call: Int
    var errno: Errno
    var persistence: FaultPlan.Persistence
    var finishes: Bool

    var description: String { "call \(call), \(errno), \(persistence)" }
  }

  /// Returns the cases of a script with this many calls.
  static func cases(callCount: Int, errorsPerCall: Int = errorsPerCall, seed: UInt64) -> [Case] {
    var generator = SeededGenerator(seed: seed)
    return (1...callCount).flatMap { call in
      let chosen = isLong ? errors : Array(errors.shuffled(using: &generator).prefix(errorsPerCall))
      return chosen.flatMap { errno -> [Case] in
        // A call that is interrupted forever is retried forever.
        let both: [FaultPlan.Persistence] = errno == .interrupted ? [.once] : [.once, .fromThenOn]
        let persistences = isLong ? both : [both.randomElement(using: &generator) ?? .once]
        return persistences.map {
          Case(call: call, errno: errno, persistence: $0, finishes: Int.random(in: 0..<4, using: &generator) == 0)
        }
      }
    }
  }

  @Test(.timeLimit(.minutes(30)), arguments: FaultScript.all, durabilities)
  func everyFailedCallIsReportedAndHarmless(script: FaultScript, durability: BlobStore.Durability) throws {
    let seed = SeededGenerator.announcedSeed(
      for: "everyFailedCallIsReportedAndHarmless", environment: ProcessInfo.processInfo.environment)
    try Self.expectHarmless(script, durability, errorsPerCall: durability == .full ? Self.errorsPerCall : 1, seed: seed)
  }

  /// Failed calls on a kernel without `openat2`, `renameat2`, and unnamed files.
  @Test(.timeLimit(.minutes(30)), arguments: FaultScript.all)
  func everyFailedCallIsReportedAndHarmlessOnOldKernels(script: FaultScript) throws {
    let seed = SeededGenerator.announcedSeed(
      for: "everyFailedCallIsReportedAndHarmlessOnOldKernels", environment: ProcessInfo.processInfo.environment)
    try Self.expectHarmless(script, .none, errorsPerCall: 1, seed: seed) {
      $0.refuse(.openBeneath, .noFunction)
      $0.refuse(.renameNoReplace, .invalidArgument)
      $0.refuse(.openUnnamed, .isDirectory)
    }
  }

  static func expectHarmless(
    _ script: FaultScript, _ durability: BlobStore.Durability, errorsPerCall: Int = errorsPerCall, seed: UInt64,
    _ prepare: (FaultPlan) -> Void = { _ in }
  ) throws {
    var unharmed = try FaultRun(script, durability)
    prepare(unharmed.plan)
    #expect(try unharmed.play() == [])
    for harm in cases(callCount: unharmed.scriptCallCount, errorsPerCall: errorsPerCall, seed: seed) {
      var run = try FaultRun(script, durability)
      prepare(run.plan)
      run.plan.arm(FaultPlan.Fault(harm.errno, call: harm.call, harm.persistence))
      let mismatches = try run.play(finishes: harm.finishes)
      #expect(mismatches.isEmpty, "seed \(seed), \(script) at \(durability): \(harm)")
      // One failure is enough to investigate.
      guard mismatches.isEmpty else { return }
    }
  }

  @Test(arguments: FaultScript.all, [1, 7, 63, 64, 65, 200])
  func shortTransfersAreInvisible(script: FaultScript, byteCount: Int) throws {
    var run = try FaultRun(script, .automatic)
    run.plan.limitTransfers { _ in byteCount }
    #expect(try run.play() == [])
    #expect(run.plan.transfers > 0)
  }

  @Test(arguments: FaultScript.all, [1, 32])
  func eachTransferMayBeShort(script: FaultScript, byteCount: Int) throws {
    var whole = try FaultRun(script, .none)
    whole.plan.limitTransfers { _ in nil }
    #expect(try whole.play() == [])
    var cut = 0
    for short in 1...whole.plan.transfers {
      var run = try FaultRun(script, .none)
      run.plan.limitTransfers { $0 == short ? byteCount : nil }
      #expect(try run.play() == [], "transfer \(short)")
      if run.plan.transfers > whole.plan.transfers { cut += 1 }
    }
    // A transfer at the end of a file cannot be shortened.
    #expect(cut > whole.plan.transfers / 4)
  }

  @Test(
    arguments: FaultScript.all,
    [
      (.openBeneath, .noFunction), (.openBeneath, .notPermitted), (.renameNoReplace, .invalidArgument),
      (.renameNoReplace, .noFunction), (.renameNoReplace, .notSupported), (.openUnnamed, .notSupported),
      (.openUnnamed, .isDirectory), (.linkUnnamed, .notPermitted), (.linkUnnamed, .noSuchFileOrDirectory),
    ] as [(SystemCall, Errno)])
  func whatTheKernelLacksIsDoneWithout(script: FaultScript, lacks: (call: SystemCall, errno: Errno)) throws {
    var run = try FaultRun(script, .automatic)
    run.plan.refuse(lacks.call, lacks.errno)
    #expect(try run.play() == [])
  }

  // MARK: The harness

  /// The harness detects an operation that hides its error.
  @Test func harnessFindsAnIgnoredError() throws {
    let script = try #require(FaultScript.all.first)
    var run = try FaultRun(script, .none)
    run.perform = { operation, store in
      let result = operation.perform(on: store)
      return result.error?.errno == .noSpace ? StoreResult(answer: .done) : result
    }
    // The first write stores the settings and the third one the control file, which may fail without an error.
    run.plan.arm(FaultPlan.Fault(.noSpace, call: 4, of: [.write]))
    #expect(try !run.play().isEmpty)
    #expect(run.plan.failed.count == 1)
  }

  /// The harness detects a lock that is acknowledged, but not stored in the file.
  @Test func harnessFindsADroppedLock() throws {
    let script = try #require(FaultScript.all.first { $0.name == "locks" })
    var run = try FaultRun(script, .none)
    run.perform = { operation, store in
      if case .lock("abc") = operation { return StoreResult(answer: .outcome(.done)) }
      return operation.perform(on: store)
    }
    #expect(try !run.play().isEmpty)
  }

  @Test func casesReplayFromTheirSeed() {
    let first = Self.cases(callCount: 50, seed: 5).map(\.description)
    #expect(first == Self.cases(callCount: 50, seed: 5).map(\.description))
    #expect(Self.isLong || first != Self.cases(callCount: 50, seed: 6).map(\.description))
  }
}
