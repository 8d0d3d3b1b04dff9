import BlobRecord
import BlobStore
import FaultOperations
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Promise 11: volumes that are full, over quota, read-only or out of inodes, and then have space again.
@Suite(.serialized) struct FullVolumeTests {
  static let seed = SeededGenerator.announcedSeed(for: "FullVolumeTests")
  /// The number of cycles on each of eleven volumes, with packs and without.
  static let cycles = (TestLength.count(short: 80, long: 8000) + 21) / 22

  @Test(.canMount(.ext4), arguments: [Shortage.space, .inodes, .readOnly], [false, true])
  func ext4(shortage: Shortage, packs: Bool) throws {
    try Self.run(.ext4, shortage, packs)
  }

  @Test(.canMount(.xfs), arguments: [Shortage.space, .readOnly], [false, true])
  func xfs(shortage: Shortage, packs: Bool) throws {
    try Self.run(.xfs, shortage, packs)
  }

  @Test(.canMount(.btrfs), arguments: [Shortage.space, .quota, .readOnly], [false, true])
  func btrfs(shortage: Shortage, packs: Bool) throws {
    try Self.run(.btrfs, shortage, packs)
  }

  @Test(.canMount(.tmpfs), arguments: [Shortage.space, .inodes, .readOnly], [false, true])
  func tmpfs(shortage: Shortage, packs: Bool) throws {
    try Self.run(.tmpfs, shortage, packs)
  }

  /// Planted bug: a store that ignores errors of its calls.
  @Test(.canMount(.tmpfs)) func anIgnoredErrorIsFound() throws {
    var checker = try FullVolumeChecker(.tmpfs, .space, seed: 1, plant: "ignoresErrors")
    try checker.runCycle(0)
    #expect(!checker.violations.isEmpty)
  }

  /// A store that finds no space starts a collection, which removes the files that occupy the volume, and is then
  /// repeated.
  @Test(.canMount(.tmpfs), arguments: [true, false]) func aStoreMakesRoomForItself(areOthersExpired: Bool) throws {
    let volume = try Shortage.space.volume(.tmpfs)
    let clock = ManualClock()
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.now = { clock.now }
    // Without expired records, only the free space floor makes space, for which the oldest records are evicted.
    configuration.limits.freeSpaceFloor = areOthersExpired ? 0 : 1 << 20
    configuration.limits.size = areOthersExpired ? nil : 1 << 30
    // Overwriting a recycled file would need no space.
    if !areOthersExpired { configuration.recycling = .off }
    let store = try BlobStore(directory: FilePath(volume.cache), configuration: configuration)
    // Six of them and the control file fit into the volume's 8 MiB.
    let payload = Data(repeating: 7, count: 500_000)
    for number in 0..<6 {
      try store.store(payload, for: BlobKey("\(number)"), ttl: .seconds(areOthersExpired ? 10 : 1000))
      clock.advance(by: 1)
    }
    store.waitForCollection()
    let passes = try store.statistics().passes
    try Shortage.space.begin(on: volume)
    if areOthersExpired { clock.advance(by: 20) }
    try store.store(payload, for: "new")
    #expect(try store.load("new")?.payload == payload)
    #expect(try store.load("0") == nil)
    // Because of the floor, a store may start another collection.
    let made = try store.statistics().passes - passes
    #expect(areOthersExpired ? made == 1 : made >= 1)
  }

  private static func run(_ fileSystem: Volume.FileSystem, _ shortage: Shortage, _ packs: Bool) throws {
    var checker = try FullVolumeChecker(fileSystem, shortage, packs: packs, seed: seed)
    for cycle in 0..<cycles { try checker.runCycle(cycle) }
    print(
      "\(fileSystem)\(packs ? ", packs" : ""), \(shortage): \(cycles) cycles, \(checker.operations) operations, \(checker.failures) failed",
      "as they should, \(checker.violations.count) violations")
    for violation in checker.violations.prefix(20) { Issue.record(Comment(rawValue: violation)) }
    #expect(checker.violations.isEmpty)
  }
}
