import BlobStore
import Posix
import SystemPackage
import TestSupport
import Testing

/// Every call of every operation on packed records fails once: the operation reports that error, and has no side
/// effect. The short form selects a few calls at random, because each run reads all packs many times.
@Suite(.serialized) struct PackFaultTests {
  static let scripts =
    FaultScript.all.filter { ["stores", "locks"].contains($0.name) } + [FaultScript.packs]

  private static let shortCount = 5

  @Test(.timeLimit(.minutes(30)), arguments: scripts, [BlobStore.Durability.automatic, .full])
  func everyFailedCallIsHarmless(script: FaultScript, durability: BlobStore.Durability) throws {
    let seed = SeededGenerator.announcedSeed(for: "PackFaultTests")
    var generator = SeededGenerator(seed: seed)
    var unharmed = try PackFaultRun(script, durability)
    #expect(try unharmed.play(makesIndexAnew: true) == [])
    // A byte that cannot be unlocked stays locked for the life of the process. Steps in memory do not fail.
    let kinds = Set(SystemCall.allCases.filter { ($0 == .takeStripe || !$0.isStep) && $0 != .unlockByte })
    let calls = Array(1...unharmed.callCount)
    for call in FaultTests.isLong ? calls : Array(calls.shuffled(using: &generator).prefix(Self.shortCount)) {
      let errors =
        FaultTests.isLong ? FaultTests.errors : [FaultTests.errors.randomElement(using: &generator) ?? .ioError]
      for errno in errors {
        // A call that is interrupted forever is retried forever.
        let isOnce = errno == .interrupted || Bool.random(using: &generator)
        var run = try PackFaultRun(script, durability)
        run.plan.arm(FaultPlan.Fault(errno, call: call, of: kinds, isOnce ? .once : .fromThenOn))
        let mismatches = try run.play(makesIndexAnew: call.isMultiple(of: 8))
        #expect(mismatches.isEmpty, "seed \(seed), \(script) at \(durability): call \(call), \(errno), once: \(isOnce)")
        // One failure is enough to investigate.
        guard mismatches.isEmpty else { return }
      }
    }
  }
}
