import BlobRecord
import BlobStore
import Foundation
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

/// Two stores in one process open the control file separately, and so exclude each other like two processes.
@Suite struct SharingTests {
  let directory: TemporaryDirectory
  let path: FilePath
  let clock = ManualClock()

  init() throws {
    directory = try TemporaryDirectory()
    path = directory.path.appending("cache")
  }

  func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.layout.arrangement = .prefix
    configuration.durability = .none
    configuration.access.recordsConfiguration = false
    configuration.access.lockTimeout = .seconds(60)
    let clock = clock
    configuration.now = { clock.now }
    change(&configuration)
    return try BlobStore(directory: path, configuration: configuration, files: files)
  }

  private func controlFile() throws -> OpenFile {
    guard let root = try Directory(at: path, files: Files()) else { throw CocoaError(.fileNoSuchFile) }
    guard case .regular(let file, _) = try root.openFile(".blobcache", for: .readWrite) else {
      throw CocoaError(.fileNoSuchFile)
    }
    return file
  }

  @Test func theFirstChangeMakesTheControlFileAndNoReadDoes() throws {
    try FileManager.default.createDirectory(atPath: path.string, withIntermediateDirectories: true)
    let store = try store()
    #expect(try store.load("key") == nil)
    #expect(try store.usage().records == 0)
    _ = try store.collect(BlobStore.CollectionOptions(dryRun: true))
    #expect(try directory.names(in: "cache") == [])
    #expect(try store.lock("key") == .notFound)
    #expect(try directory.names(in: "cache") == [".blobcache"])
    let attributes = try FileManager.default.attributesOfItem(atPath: path.appending(".blobcache").string)
    #expect(attributes[.size] as? Int == 4096 + 4 * 1_048_576 + 64 * 4096 + 64 * 1024 + 32 * 4096)
  }

  @Test func noLockIsLostBetweenStores() async throws {
    try store().store(Data("payload".utf8), for: "key", ttl: .seconds(1000))
    let stores = try (0..<4).map { _ in try store() }
    try await withThrowingTaskGroup { group in
      for store in stores {
        group.addTask { () async throws -> Void in
          for _ in 0..<500 { #expect(try store.lock("key") == .done) }
        }
      }
      try await group.waitForAll()
    }
    #expect(try store().header(for: "key")?.refCount == 2000)
    try await withThrowingTaskGroup { group in
      for store in stores {
        group.addTask { () async throws -> Void in
          for _ in 0..<500 { #expect(try store.unlock("key") == .done) }
        }
      }
      try await group.waitForAll()
    }
    #expect(try store().unlock("key") == .notLocked)
  }

  @Test(.timeLimit(.minutes(30))) func aChangeWaitsForItsDeadlineAndALoadDoesNotWait() throws {
    let store = try store { $0.access.lockTimeout = .milliseconds(100) }
    try store.store(Data("payload".utf8), for: "key")
    let holder = try HeldLocks(in: path)
    #expect(try holder.take(ControlLayout.stripeBytes))
    clock.advance(by: 10)
    let start = ContinuousClock.now
    #expect(try store.load("key")?.payload == Data("payload".utf8))
    #expect(throws: BlobStoreError.self) { try store.store(Data(), for: "key") }
    do {
      try store.lock("key")
      Issue.record("locked under another's stripe")
    } catch {
      #expect(error.code == .busy)
    }
    #expect(start.duration(to: .now) >= .milliseconds(200))
    try holder.giveBack(ControlLayout.stripeBytes)
    #expect(try store.lock("key") == .done)
    // The touch was skipped, because it would have had to wait.
    #expect(try store.header(for: "key")?.lastUpdate == clock.now.advanced(bySeconds: -10))
  }

  @Test func aSecondCollectorIsToldSo() throws {
    let store = try store()
    try store.store(Data(), for: "key")
    let holder = try controlFile()
    #expect(try holder.tryLock(bytes: 4096..<4097))
    do {
      _ = try store.collect()
      Issue.record("collected beside another")
    } catch {
      #expect(error.code == .collectionRunning)
    }
    try holder.unlock(bytes: 4096..<4097)
    #expect(try store.collect().examined == 1)
  }

  @Test func exclusiveStoresTakeNoFileLocks() throws {
    try store().store(Data("payload".utf8), for: "key")
    let holder = try controlFile()
    #expect(try holder.tryLock(bytes: 0..<4096))
    #expect(try store { $0.access.sharing = .exclusive }.lock("key") == .done)
  }

  /// Without shared memory, a deleted control file is noticed immediately.
  @Test(arguments: [true, false]) func aDeletedControlFileIsMadeAgain(isMapped: Bool) throws {
    let files = Files(intercepting: { call, _ in call == .map && !isMapped ? .fail(.operationNotSupportedByDevice) : nil
    })
    let store = try store(files: files)
    try store.store(Data("payload".utf8), for: "key")
    try FileManager.default.removeItem(atPath: path.appending(".blobcache").string)
    if isMapped { store.checkRoot() }
    #expect(try store.lock("key") == .done)
    #expect(try directory.names(in: "cache").contains(".blobcache"))
    // Other processes use the new file.
    let holder = try HeldLocks(in: path)
    #expect(try holder.take(ControlLayout.stripeBytes))
    #expect(throws: BlobStoreError.self) {
      try self.store { $0.access.lockTimeout = .milliseconds(20) }.lock("key")
    }
  }

  /// On a network file system, calls for a control file that another host has deleted fail with ESTALE.
  @Test(arguments: [SystemCall.status, .lockByte]) func aControlFileThatAnotherHostHasDeletedIsMadeAgain(
    failing: SystemCall
  ) throws {
    let isDeleted = Atomic(false)
    let store = try store(
      files: Files { call, location in
        if call == .map { return .fail(.operationNotSupportedByDevice) }
        guard call == failing, location.path.lastComponent?.string == ".blobcache",
          isDeleted.exchange(false, ordering: .relaxed)
        else { return nil }
        return .fail(.staleNFSFileHandle)
      })
    try store.store(Data("payload".utf8), for: "key")
    isDeleted.store(true, ordering: .relaxed)
    #expect(try store.lock("key") == .done)
    let isMet = !isDeleted.load(ordering: .relaxed)
    #expect(isMet)
    #expect(try self.store().header(for: "key")?.refCount == 1)
  }

  /// On a volume without space for the control file, changes use the lock of the directory.
  @Test func aFullVolumeIsLockedByItsDirectory() throws {
    try FileManager.default.createDirectory(atPath: path.string, withIntermediateDirectories: true)
    // With a mode that lets other users open the directory, they could lock it, so its lock would not be used.
    try check(chmod(path.string, 0o700), "chmod")
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.layout.arrangement = .prefix
    configuration.durability = .none
    configuration.access.lockTimeout = .milliseconds(100)
    let files = Files { call, _ in call == .allocate ? .fail(.noSpace) : nil }
    let full = try BlobStore(directory: path, configuration: configuration, files: files)
    try full.store(Data("payload".utf8), for: "key")
    #expect(try full.lock("key") == .done)
    #expect(try directory.names(in: "cache") == ["ke"])
    guard let gate = try Directory(at: path, files: Files()) else { throw CocoaError(.fileNoSuchFile) }
    #expect(try gate.tryLock())
    #expect(throws: BlobStoreError.self) { try full.lock("key") }
    // Creating the control file requires the lock of the directory, too.
    #expect(throws: BlobStoreError.self) { try store { $0.access.lockTimeout = .milliseconds(100) }.lock("key") }
    _ = consume gate
    #expect(try store().lock("key") == .done)
    #expect(try full.lock("key") == .done)
    #expect(try store().header(for: "key")?.refCount == 3)
  }

  @Test func countersFollowEveryChange() throws {
    let store = try store()
    for index in 0..<10 { try store.store(Data(count: 36), for: "key \(index)", locks: index < 3 ? .one : .none) }
    var expected = BlobStore.UsageEstimate(records: 10, bytes: 1000, lockedRecords: 3, lockedBytes: 300)
    #expect(try store.usageEstimate() == expected)

    try store.unlock("key 0")
    try store.store(Data(count: 136), for: "key 5")
    try store.remove("key 1")
    try store.lock("key 9")
    try store.lock("key 9")
    expected = BlobStore.UsageEstimate(records: 9, bytes: 1000, lockedRecords: 2, lockedBytes: 200)
    #expect(try self.store().usageEstimate() == expected)
    clock.advance(by: 601)
    #expect(try store.collect().expired == 7)
    #expect(
      try store.usageEstimate() == BlobStore.UsageEstimate(records: 2, bytes: 200, lockedRecords: 2, lockedBytes: 200))
    try store.removeAll(.all)
    #expect(try store.usageEstimate() == BlobStore.UsageEstimate())
  }
}
