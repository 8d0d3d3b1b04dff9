import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// The next change replaces a control file that was damaged, for example by a power cut.
@Suite(.timeLimit(.minutes(30))) struct ControlFileHealingTests {
  static let payload = Data("x".utf8)

  private func content(_ cache: HostileCache) throws -> [UInt8] {
    Array(try Data(contentsOf: URL(filePath: cache.path(".blobcache").string)))
  }

  private func plant(_ bytes: [UInt8], size: Int64? = nil, in cache: HostileCache) throws {
    try cache.write(bytes, to: try cache.clear(".blobcache"), size: size)
  }

  @Test(arguments: [Int64(0), 1, 16, 4096, ControlBytes.count, 1 << 30])
  func zerosAreReplacedByTheNextChange(size: Int64) throws {
    let cache = try HostileCache(user: nil)
    try plant([], size: size, in: cache)
    let store = try cache.makeStore()
    _ = try store.load(HostileCache.goodKey, touching: false)
    #expect(try cache.makeStore().usageEstimate() == nil)
    try store.store(Self.payload, for: "new")
    let healed = try content(cache)
    #expect(healed.count == Int(ControlBytes.count))
    #expect(healed.starts(with: ControlBytes.header))
    // Counters are unknown again until a collection has counted.
    #expect(try store.usageEstimate() == nil)
    try store.collect()
    #expect(try store.usageEstimate()?.records == 3)
    #expect(try cache.makeStore().usageEstimate()?.records == 3)
  }

  @Test func aStoreThatHasTheDamagedFileOpenGoesOverToTheNewOne() throws {
    let cache = try HostileCache(user: nil)
    try plant([], in: cache)
    let first = try cache.makeStore()
    let second = try cache.makeStore()
    #expect(try second.usageEstimate() == nil)
    try first.store(Self.payload, for: "new")
    #expect(try second.lock("new") == .done)
    try second.collect()
    #expect(try second.usageEstimate()?.lockedRecords == 2)
    #expect(try first.usageEstimate()?.lockedRecords == 2)
  }

  /// A later version may not know this version's locks, so no change is made.
  @Test func theFileOfALaterVersionIsLeft() throws {
    let cache = try HostileCache(user: nil)
    try plant(ControlBytes.header(version: ControlLayout.version + 1), size: 100_000, in: cache)
    let before = try content(cache)
    let store = try cache.makeStore()
    let error = #expect(throws: BlobStoreError.self) { try store.store(Self.payload, for: "new", locks: .one) }
    #expect(error?.code == .laterVersion)
    #expect(error?.message.contains("version \(ControlLayout.version + 1)") == true)
    #expect(throws: BlobStoreError.self) { try store.collect() }
    _ = try store.usage()
    #expect(try store.usageEstimate() == nil)
    #expect(try content(cache) == before)
  }

  @Test func aDamagedFileIsNotReplacedWhileSomebodyHoldsALockOfIt() throws {
    let cache = try HostileCache(user: nil)
    try plant([], in: cache)
    let damaged = try content(cache)
    do {
      let others = try OtherProcess(cache)
      // The collector's lock byte belongs to no key.
      try others.hold(4096..<4097)
      try cache.makeStore().store(Self.payload, for: "new")
      #expect(try content(cache) == damaged)
      // With all stripes locked, no change is possible.
      try others.hold(0..<4097)
      #expect(throws: BlobStoreError.self) { try cache.makeStore().store(Self.payload, for: "new") }
      #expect(try cache.makeStore().load("new")?.payload == Self.payload)
      #expect(try content(cache) == damaged)
    }
    try cache.makeStore().store(Self.payload, for: "new")
    #expect(try content(cache).starts(with: ControlBytes.header))
  }

  /// Of many concurrent stores, one replaces the file, and no change is lost in the switch to the new file's locks.
  @Test func locksAreExactWhileTheFileIsReplaced() async throws {
    for _ in 0..<20 {
      let cache = try HostileCache(user: nil)
      try plant([], in: cache)
      let stores = try (0..<4).map { _ in try cache.makeStore(lockTimeout: .seconds(20)) }
      // Each store has opened the damaged file.
      for store in stores { _ = try store.usageEstimate() }
      try await withThrowingTaskGroup(of: Void.self) { group in
        for store in stores {
          group.addTask { for _ in 0..<25 { try store.lock(HostileCache.goodKey) } }
        }
        try await group.waitForAll()
      }
      #expect(try stores[0].header(for: HostileCache.goodKey)?.refCount == 100)
      #expect(try content(cache).starts(with: ControlBytes.header))
    }
  }
}

/// A separate open file of the control file, like the one of another process.
private struct OtherProcess: ~Copyable {
  private let file: OpenFile

  init(_ cache: HostileCache) throws {
    guard let root = try Directory(at: cache.root, files: Files()),
      case .regular(let file, _) = try root.openFile(".blobcache", for: .readWrite)
    else {
      throw CocoaError(.fileReadNoSuchFile)
    }
    self.file = file
  }

  borrowing func hold(_ bytes: Range<Int64>) throws {
    let isHeld = try file.tryLock(bytes: bytes)
    #expect(isHeld)
  }
}
