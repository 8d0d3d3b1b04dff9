import BlobStore
import FaultOperations
import Testing

/// Tests the checkers: each finds the bugs that are built into a probe, and reports no violation of that probe
/// without a fault.
@Suite(.whereTracingWorks, .serialized) struct PlantedBugTests {
  let directories: StartDirectories

  init() throws {
    directories = try StartDirectories()
  }

  static let store = FaultOperation.store(Scenario.subject, Scenario.newPayload)

  @Test(arguments: ["storesInPlace", "storesByRemovingFirst"]) func crashesFind(plant: String) throws {
    let checker = try CrashChecker(Scenario(operation: Self.store, start: .unlocked), directories, plant: plant)
    #expect(checker.violations == [])
    #expect(try !PossibleFaults.crashes(checker.calls).flatMap { try checker.check($0) }.isEmpty)
  }

  /// A recycled file that is published before it is complete.
  @Test func crashesFindTheFileThatIsPublishedTooEarly() throws {
    let checker = try CrashChecker(
      Scenario(operation: Self.store, start: .warmUnlocked), directories, plant: "publishesBeforeWriting")
    #expect(checker.violations == [])
    #expect(try !PossibleFaults.crashes(checker.calls).flatMap { try checker.check($0) }.isEmpty)
  }

  @Test(arguments: ["ignoresErrors", "leavesTemporaryFiles"]) func errorsFind(plant: String) throws {
    let checker = try CrashChecker(Scenario(operation: Self.store, start: .unlocked), directories, plant: plant)
    #expect(checker.violations == [])
    let faults = checker.calls.map { Fault(call: $0.number, kind: .fail("ENOSPC", once: true)) }
    #expect(try !faults.flatMap { try checker.check($0) }.isEmpty)
  }

  @Test func interleavingsFindTheLockWithoutStripe() throws {
    try expectFound(
      InterleavingChecker(
        first: Scenario(operation: .lock(Scenario.subject), start: .locked, durability: .none),
        second: .lock(Scenario.subject), directories: directories, firstPlant: "locksWithoutStripe"))
  }

  @Test func interleavingsFindTheEvictionThatDoesNotLookAgain() throws {
    try expectFound(
      InterleavingChecker(
        first: Scenario(operation: .collect(evicting: true), start: .unlocked, durability: .none),
        second: .lock(Scenario.subject), directories: directories, firstPlant: "evictsWithoutLookingAgain"))
  }

  @Test func interleavingsFindTheLoadThatSeesNothing() throws {
    try expectFound(
      InterleavingChecker(
        first: Scenario(operation: Self.store, start: .unlocked, durability: .none),
        second: .load(Scenario.subject, touching: false), directories: directories,
        firstPlant: "storesByRemovingFirst"))
  }

  @Test func interleavingsFindTheLoadThatWaits() throws {
    try expectFound(
      InterleavingChecker(
        first: Scenario(operation: Self.store, start: .unlocked, durability: .none),
        second: .load(Scenario.subject, touching: false), directories: directories, secondPlant: "loadsUnderLock"))
  }

  private func expectFound(_ checker: InterleavingChecker) throws {
    #expect(try !findings(checker).isEmpty)
    // The violation must disappear without the bug. Otherwise, the checker has found something else.
    var sound = checker
    sound.firstPlant = nil
    sound.secondPlant = nil
    #expect(try findings(sound) == [])
  }

  private func findings(_ checker: InterleavingChecker) throws -> [String] {
    try checker.calls().decisive.flatMap { try checker.checkOrder(at: $0.number) }
  }
}
