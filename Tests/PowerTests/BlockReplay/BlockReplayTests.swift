import BlobStore
import FaultOperations
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Promise 10: real file systems on a disk that loses unflushed writes in every way that a disk may.
@Suite(.serialized) struct BlockReplayTests {
  static let seed = SeededGenerator.announcedSeed(for: "BlockReplayTests")
  /// The number of states for each file system, with packs and without.
  static let states = TestLength.count(short: 60, long: 6000)
  /// The seed is fixed in the short form with packs, so that each run makes the same choices.
  static let packedSeed = TestLength.isShort ? 31 : seed

  @Test(.canMount(.ext4), .canReplay, arguments: [false, true]) func replayOfExt4(packs: Bool) throws {
    try Self.replay(.ext4, packs: packs).report(on: "ext4")
  }

  @Test(.canMount(.xfs), .canReplay, arguments: [false, true]) func replayOfXfs(packs: Bool) throws {
    try Self.replay(.xfs, packs: packs).report(on: "xfs")
  }

  /// Planted bug: success is reported before the data is on the medium.
  @Test(.canMount(.ext4), .canReplay, arguments: [false, true]) func replayFindsAMissingSync(packs: Bool) throws {
    let session = try LoggedSession(
      .ext4, .full, packs: packs, operations: 30, seed: 1, missing: packs ? .ofPacks : .ofFiles)
    var generator = SeededGenerator(seed: 1)
    #expect(try !BlockReplay(session).check(states: 12, using: &generator).isEmpty)
  }

  struct Outcome {
    let packs: Bool
    var states = 0
    var violations: [String] = []

    func report(on fileSystem: String) {
      let place = packs ? " with packs" : ""
      print("\(fileSystem)\(place): \(states) disks replayed, \(violations.count) violations")
      for violation in violations.prefix(20) { Issue.record(Comment(rawValue: violation)) }
      #expect(violations.isEmpty)
    }
  }

  private static func replay(_ fileSystem: Volume.FileSystem, packs: Bool) throws -> Outcome {
    var generator = SeededGenerator(seed: packs ? packedSeed : seed)
    var outcome = Outcome(packs: packs)
    while outcome.states < states {
      for durability in BlobStore.Durability.allCases {
        let session = try LoggedSession(
          fileSystem, durability, packs: packs, operations: 30, seed: generator.next())
        let share = min(max(states / BlobStore.Durability.allCases.count, 1), 100)
        outcome.violations += try BlockReplay(session).check(states: share, using: &generator)
        outcome.states += share
      }
    }
    return outcome
  }
}

extension Trait where Self == ConditionTrait {
  /// Skips a test visibly if FUSE is not available.
  static var canReplay: Self {
    .enabled(if: access("/dev/fuse", R_OK | W_OK) == 0, "needs /dev/fuse")
  }
}
