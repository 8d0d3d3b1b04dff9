import BlobStore
import FaultOperations
import SystemPackage
import TestSupport
import Testing

/// Promise 11: volumes that are full, over quota, read-only or out of inodes, and then have room again.
@Suite(.serialized) struct FullVolumeTests {
  static let seed = SeededGenerator.announcedSeed(for: "FullVolumeTests")
  /// On each of eleven volumes.
  static let cycles = (TestLength.count(short: 80, long: 8000) + 10) / 11

  @Test(.canMount(.ext4), arguments: [Shortage.space, .inodes, .readOnly]) func ext4(shortage: Shortage) throws {
    try Self.run(.ext4, shortage)
  }

  @Test(.canMount(.xfs), arguments: [Shortage.space, .readOnly]) func xfs(shortage: Shortage) throws {
    try Self.run(.xfs, shortage)
  }

  @Test(.canMount(.btrfs), arguments: [Shortage.space, .quota, .readOnly]) func btrfs(shortage: Shortage) throws {
    try Self.run(.btrfs, shortage)
  }

  @Test(.canMount(.tmpfs), arguments: [Shortage.space, .inodes, .readOnly]) func tmpfs(shortage: Shortage) throws {
    try Self.run(.tmpfs, shortage)
  }

  /// Planted: a store that does not look at what its calls answer.
  @Test(.canMount(.tmpfs)) func anIgnoredErrorIsFound() throws {
    var checker = try FullVolumeChecker(.tmpfs, .space, seed: 1, plant: "ignoresErrors")
    try checker.runCycle(0)
    #expect(!checker.violations.isEmpty)
  }

  private static func run(_ fileSystem: Volume.FileSystem, _ shortage: Shortage) throws {
    var checker = try FullVolumeChecker(fileSystem, shortage, seed: seed)
    for cycle in 0..<cycles { try checker.runCycle(cycle) }
    print(
      "\(fileSystem), \(shortage): \(cycles) cycles, \(checker.operations) operations, \(checker.failures) failed",
      "as they should, \(checker.violations.count) violations")
    for violation in checker.violations.prefix(20) { Issue.record(Comment(rawValue: violation)) }
    #expect(checker.violations.isEmpty)
  }
}
