import BlobStore
import FaultOperations
import Foundation
import SystemPackage
import Synchronization
import TestSupport
import Testing

/// Promise 10: real file systems that lose power while processes work on them.
@Suite(.serialized) struct PowerCutTests {
  static let seed = SeededGenerator.announcedSeed(for: "PowerCutTests")
  /// The number of power cuts for each file system.
  static let cuts = TestLength.count(short: 75, long: 5000)
  static let packedCuts = TestLength.count(short: 32, long: 5000)
  /// The seed is fixed in the short form with packs, so that each run makes the same choices.
  static let packedSeed = TestLength.isShort ? 31 : seed

  @Test(.canMount(.ext4), arguments: [false, true]) func cutsOfExt4(packs: Bool) throws {
    let outcome = try Self.cut(Volume(.ext4, megabytes: packs ? 128 : 64), packs: packs)
    outcome.report(on: "ext4")
  }

  @Test(.canMount(.xfs), arguments: [false, true]) func cutsOfXfs(packs: Bool) throws {
    let outcome = try Self.cut(Volume(.xfs, megabytes: 320), packs: packs)
    outcome.report(on: "xfs")
  }

  /// Planted bug: success is reported before the data is on the medium.
  @Test(.canMount(.ext4), arguments: [false, true]) func cutsOfExt4FindAMissingSync(packs: Bool) throws {
    let outcome = try Self.cut(
      Volume(.ext4, megabytes: packs ? 128 : 64), packs: packs, missing: packs ? .ofPacks : .ofFiles)
    #expect(!outcome.violations.isEmpty)
  }

  @Test(.canMount(.xfs), arguments: [false, true]) func cutsOfXfsFindAMissingSync(packs: Bool) throws {
    let outcome = try Self.cut(
      Volume(.xfs, megabytes: 320), packs: packs, missing: packs ? .ofPacks : .ofFiles)
    #expect(!outcome.violations.isEmpty)
  }

  // MARK: - Cutting

  struct Outcome: Sendable {
    let packs: Bool
    var cuts = 0
    var operations = 0
    var violations: [String] = []

    func report(on fileSystem: String) {
      let place = packs ? " with packs" : ""
      print("\(fileSystem)\(place): \(cuts) power cuts, \(operations) operations, \(violations.count) violations")
      for violation in violations.prefix(20) { Issue.record(Comment(rawValue: violation)) }
      #expect(violations.isEmpty)
    }
  }

  /// - Parameters:
  ///   - packs: A Boolean value that indicates whether small records are stored in packs.
  ///   - missing: A planted bug of the workers. The test ends with the first cut that detects it.
  private static func cut(_ volume: Volume, packs: Bool, missing: MissingSync? = nil) throws -> Outcome {
    let times = missing == nil ? (packs ? packedCuts : cuts) : 8
    let byteCounts = MissingSync.byteCounts(missing, packs: packs)
    var outcome = Outcome(packs: packs)
    var generator = SeededGenerator(seed: packs ? packedSeed : seed)
    while outcome.cuts < times, missing == nil || outcome.violations.isEmpty {
      let durability =
        missing == nil ? BlobStore.Durability.allCases[outcome.cuts % BlobStore.Durability.allCases.count] : .full
      var settings = StoreSettings(directory: FilePath(volume.cache))
      settings.durability = durability
      settings.packs = packs
      let before = try DirectoryState(inspecting: settings)
      let drivers = try [["subject", "su-1", "a"], ["su-2", "other", "b"]].map { keys in
        WorkerDriver(
          try Worker(volume.cache, missing?.durability ?? durability, packs: packs, plant: missing?.plant),
          PowerCutOracle(durability, keys: keys, on: before.only(keys), packs: packs),
          VolumeOperations(keys: keys, byteCounts: byteCounts, seed: generator.next()))
      }
      for driver in drivers { driver.start() }
      for driver in drivers { driver.waitForFirstAnswer() }
      usleep(.random(in: 1000..<40_000, using: &generator))
      if packs {
        try WriteBack.byChance(in: volume.cache, using: &generator)
        usleep(.random(in: 0..<10_000, using: &generator))
      }
      for driver in drivers { driver.expectFailures() }
      try volume.cutPower()
      for driver in drivers { outcome.violations += driver.stop() }
      try volume.unmount()
      try volume.mount()
      if packs { try NextBoot.begin(in: volume.cache) }
      let found = try DirectoryState(inspecting: settings)
      for driver in drivers {
        outcome.operations += driver.operationCount
        var oracle = driver.oracle
        // A collection of the other worker may have moved this worker's records.
        if packs { oracle.begin(.collect(evicting: false)) }
        outcome.violations += oracle.violations(in: found.only(oracle.keys)).map {
          "cut \(outcome.cuts): \($0); last: \(driver.lastOperations)"
        }
      }
      outcome.cuts += 1
      if packs {
        try removeHiddenFiles(settings)
        // Unmounting the volume puts the current state on the medium.
        try volume.unmount()
        try volume.mount()
      }
    }
    return outcome
  }

  /// A cut may leave a file that is hidden by the packed record that superseded it. If it is removed without `full`,
  /// a later cut may restore it, which the oracle of that time does not know.
  private static func removeHiddenFiles(_ settings: StoreSettings) throws {
    let store = try settings.makeStore()
    for record in try store.records() where record.packed != nil {
      guard let key = record.key else { continue }
      if unlink(try store.filePath(for: key).string) != 0, errno != ENOENT { throw Errno(rawValue: errno) }
    }
  }
}

extension DirectoryState {
  /// Returns the state of only these keys.
  func only(_ keys: [String]) -> DirectoryState {
    var state = self
    state.keys = state.keys.filter { keys.contains($0.key) }
    return state
  }
}
