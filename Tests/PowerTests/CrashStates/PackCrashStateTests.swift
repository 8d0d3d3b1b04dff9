import BlobStore
import CrashStates
import FaultOperations
import TestSupport
import Testing

/// Promise 10 with packs: a power cut may keep or lose each page of a pack, of its table, of the index and of the
/// control file separately, even if the page was only written to shared memory.
@Suite(.serialized) struct PackCrashStateTests {
  /// The seed is fixed in the short form.
  static let seed = TestLength.isShort ? 31 : SeededGenerator.announcedSeed(for: "PackCrashStateTests")
  static let states = TestLength.count(short: 300, long: 300_000)
  static let effort = CrashEffort(
    statesPerPoint: 8, mostPerPoint: 2, pointShare: TestLength.isShort ? 0.1 : 1)

  @Test func everyCrashStateOfPacksKeepsThePromises() async throws {
    var generator = SeededGenerator(seed: Self.seed)
    let each = CrashScript.eachWithPacks.shuffled(using: &generator)
    try await CrashStateTests.check(
      TestLength.isShort ? Array(each.prefix(40)) : each, then: { CrashScript.random(withPacks: true, using: &$0) },
      states: Self.states, Self.effort, seed: Self.seed)
  }

  /// A file and its name are on the medium before the superseded packed record is marked dead there.
  @Test(arguments: [BlobStore.Durability.barrier, .full]) func aFileIsThereBeforeItsPackedRecordIsNot(
    durability: BlobStore.Durability
  ) throws {
    let script = CrashScript(
      start: .unlocked, operations: [.store(CrashScript.subject, PayloadName("new", 5000))], durability: durability,
      packs: true)
    try CrashStateTests.expectNone(script, Self.closeEffort, under: .ext4)
  }

  /// A durable record has superseded a file, and a later record that is not durable supersedes it. If the later one
  /// is lost, the file must not reappear.
  @Test(arguments: [
    [FaultOperation.store(CrashScript.subject, PayloadName("new", 700), locks: .one), .unlock(CrashScript.subject)],
    [.store(CrashScript.subject, PayloadName("new", 700)), .lock(CrashScript.subject), .unlock(CrashScript.subject)],
  ]) func aFileDoesNotComeBackFromBeneathADurableRecord(operations: [FaultOperation]) throws {
    var script = CrashScript(
      start: .unlocked, operations: operations + [.store(CrashScript.subject, PayloadName("newer", 448))],
      durability: .automatic, packs: true)
    script.oldByteCount = 5000
    try CrashStateTests.expectNone(script, Self.closeEffort)
  }

  /// The mark on a packed record is on the medium before a change of the file that superseded it is acknowledged.
  @Test(arguments: [
    FaultOperation.lock(CrashScript.subject), .store(CrashScript.subject, PayloadName("newer", 6000), locks: .one),
  ]) func aPackedRecordDoesNotComeBackOverADurableFile(operation: FaultOperation) throws {
    let script = CrashScript(
      start: .unlocked, operations: [.store(CrashScript.subject, PayloadName("new", 5000)), operation],
      durability: .automatic, packs: true)
    try CrashStateTests.expectNone(script, Self.closeEffort, under: .ext4)
  }

  /// A power cut may leave an empty control file. Loads still find the packs.
  @Test func packsAreFoundBehindALostControlFile() throws {
    let script = CrashScript(
      start: .nothing, operations: [.store(CrashScript.subject, PayloadName("new", 700))], durability: .full,
      packs: true)
    try CrashStateTests.expectNone(script, Self.closeEffort)
  }

  /// A checkpoint remains valid whatever the cut has left of later changes, including a chunk that was reused.
  @Test(arguments: [
    [
      FaultOperation.remove(CrashScript.subject), .collect(evicting: false),
      .store("su-other", PayloadName("new", 700)),
    ],
    [.store(CrashScript.subject, PayloadName("new", 700)), .collect(evicting: false), .remove(CrashScript.subject)],
    [.lock(CrashScript.subject), .collect(evicting: true), .store("x", PayloadName("new", 3000))],
  ])
  func aCheckpointSaysNothingThatIsNotSo(operations: [FaultOperation]) throws {
    for durability in [BlobStore.Durability.automatic, .full] {
      var script = CrashScript(
        start: .unlocked, operations: [.collect(evicting: false)] + operations, durability: durability, packs: true)
      script.checkpoints = true
      try CrashStateTests.expectNone(
        script, CrashEffort(statesPerPoint: 8, mostPerPoint: 2, pointShare: TestLength.isShort ? 0.4 : 1))
    }
  }

  // MARK: - Planted bugs

  /// The effort for a single script.
  static let closeEffort = CrashEffort(statesPerPoint: 16, mostPerPoint: 4)

  static let store = FaultOperation.store(CrashScript.subject, PayloadName("new", 700))

  /// Planted bug: a record is published before it is on the medium.
  @Test(arguments: [BlobStore.Durability.barrier, .full]) func aMissingSyncOfAPackIsFound(
    durability: BlobStore.Durability
  ) throws {
    let script = CrashScript(start: .unlocked, operations: [Self.store], durability: durability, packs: true)
    try CrashStateTests.expectFound(script, Self.closeEffort) { $0.withoutSyncs(ofDirectories: false) }
  }
}
