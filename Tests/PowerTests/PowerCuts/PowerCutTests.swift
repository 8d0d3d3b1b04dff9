import BlobStore
import FaultOperations
import Foundation
import SystemPackage
import Synchronization
import TestSupport
import Testing

/// Promise 10: real file systems whose power is cut while processes work on them.
@Suite(.serialized) struct PowerCutTests {
  static let seed = SeededGenerator.announcedSeed(for: "PowerCutTests")
  /// On each file system.
  static let cuts = TestLength.count(short: 75, long: 5000)

  @Test(.canMount(.ext4)) func cutsOfExt4() throws {
    let outcome = try Self.cut(Volume(.ext4, megabytes: 64), times: Self.cuts)
    outcome.report(on: "ext4")
  }

  @Test(.canMount(.xfs)) func cutsOfXfs() throws {
    let outcome = try Self.cut(Volume(.xfs, megabytes: 320), times: Self.cuts)
    outcome.report(on: "xfs")
  }

  /// Planted: who says that it is done before it is on the medium.
  @Test(.canMount(.ext4)) func cutsOfExt4FindAMissingSync() throws {
    let outcome = try Self.cut(Volume(.ext4, megabytes: 64), times: 8, plant: "storesWithoutSync")
    #expect(!outcome.violations.isEmpty)
  }

  @Test(.canMount(.xfs)) func cutsOfXfsFindAMissingSync() throws {
    let outcome = try Self.cut(Volume(.xfs, megabytes: 320), times: 8, plant: "storesWithoutSync")
    #expect(!outcome.violations.isEmpty)
  }

  // MARK: - Cutting

  struct Outcome: Sendable {
    var cuts = 0
    var operations = 0
    var violations: [String] = []

    func report(on fileSystem: String) {
      print("\(fileSystem): \(cuts) power cuts, \(operations) operations, \(violations.count) violations")
      for violation in violations.prefix(20) { Issue.record(Comment(rawValue: violation)) }
      #expect(violations.isEmpty)
    }
  }

  /// - Parameter plant: a bug in the workers; the durability is `full` then.
  private static func cut(_ volume: Volume, times: Int, plant: String? = nil) throws -> Outcome {
    var outcome = Outcome()
    var generator = SeededGenerator(seed: seed)
    while outcome.cuts < times, plant == nil || outcome.violations.isEmpty {
      let durability =
        plant == nil ? BlobStore.Durability.allCases[outcome.cuts % BlobStore.Durability.allCases.count] : .full
      var settings = StoreSettings(directory: FilePath(volume.cache))
      settings.durability = durability
      let before = try DirectoryState(inspecting: settings)
      let drivers = try [["subject", "su-1", "a"], ["su-2", "other", "b"]].map { keys in
        WorkerDriver(
          try Worker(volume.cache, durability, plant: plant),
          PowerCutOracle(durability, keys: keys, on: before.only(keys)),
          VolumeOperations(keys: keys, seed: generator.next()))
      }
      for driver in drivers { driver.start() }
      for driver in drivers { driver.waitForFirstAnswer() }
      usleep(.random(in: 1000..<40_000, using: &generator))
      for driver in drivers { driver.expectFailures() }
      try volume.cutPower()
      for driver in drivers { outcome.violations += driver.stop() }
      try volume.unmount()
      try volume.mount()
      let found = try DirectoryState(inspecting: settings)
      for driver in drivers {
        outcome.operations += driver.operationCount
        outcome.violations += driver.oracle.violations(in: found.only(driver.oracle.keys)).map {
          "cut \(outcome.cuts): \($0); last: \(driver.lastOperations)"
        }
      }
      outcome.cuts += 1
    }
    return outcome
  }
}

extension DirectoryState {
  /// The state of only these keys.
  func only(_ keys: [String]) -> DirectoryState {
    var state = self
    state.keys = state.keys.filter { keys.contains($0.key) }
    return state
  }
}
