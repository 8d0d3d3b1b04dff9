import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// The states that a power cut may leave with packs: a control file that is missing, or older than the other files.
@Suite struct PackedPowerTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func control(of store: BlobStore) throws -> ControlFile {
    let open = try #require(try store.core.root.opened())
    return try #require(try open.controlFile(store.core.configuration.logger))
  }

  private func stripe(of key: BlobKey, in store: BlobStore) throws -> Int {
    ControlLayout.stripe(of: try store.core.path(for: key).digest)
  }

  enum Loss: CaseIterable { case name, content }

  @Test(arguments: Loss.allCases) func aLoadMakesAControlFileThatWasLost(loss: Loss) throws {
    try store().store(payload(100), for: "key")
    let path = cache.path(".blobcache")
    switch loss {
    case .name: try FileManager.default.removeItem(atPath: path)
    case .content: try Data(count: bytes(ofFile: path).count).write(to: URL(filePath: path))
    }
    try NextBoot.begin(in: cache.root.string)
    #expect(try store().load("key")?.payload == payload(100))
    #expect(try bytes(ofFile: path).starts(with: Data("BLOBCTL".utf8)))
  }

  /// Without packs, a load does not change the directory.
  @Test func aLoadOfADirectoryWithoutPacksMakesNoControlFile() throws {
    try cache.store().store(payload(100), for: "key")
    try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
    let reader = try store()
    for _ in 0..<2 { #expect(try reader.load("key")?.payload == payload(100)) }
    #expect(try !cache.exists(".blobcache"))
  }

  /// Something else has the control file's name. A load, unlike a change, reports no error.
  @Test func aLoadThatMayNotMakeTheControlFileFindsFilesAlone() throws {
    let writer = try store()
    try writer.store(payload(100), for: "small")
    try writer.store(payload(9000), for: "large")
    let path = cache.path(".blobcache")
    let control = try Data(bytes(ofFile: path))
    try FileManager.default.removeItem(atPath: path)
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    let reader = try store()
    #expect(try reader.load("small") == nil)
    #expect(try reader.load("large")?.payload == payload(9000))
    try FileManager.default.removeItem(atPath: path)
    try control.write(to: URL(filePath: path))
    #expect(try store().load("small")?.payload == payload(100))
  }

  /// Returns a store in which a packed record has replaced a file that a power cut has restored.
  private func storeOverAFileThatStays() throws -> BlobStore {
    let writer = try store()
    try writer.store(payload(9000), for: "key")
    let file = try writer.filePath(for: "key").string
    let old = try Data(bytes(ofFile: file))
    try writer.store(payload(100), for: "key")
    try old.write(to: URL(filePath: file))
    return writer
  }

  /// The cut has reverted an announced store, and the replaced file exists again. The index shows that a boot
  /// occurred. If the index is lost, the absence of living sessions shows it.
  @Test(arguments: [true, false]) func nothingAnnouncedBeforeTheCutIsFinished(isIndexLost: Bool) throws {
    do {
      let writer = try storeOverAFileThatStays()
      let path = try writer.core.path(for: "key")
      let open = try #require(try writer.core.root.opened())
      let records = try #require(try Records(writer.core).packs(of: open))
      let address = try #require(try records.find(path, by: RecordJudge())?.packAddress)
      try control(of: writer).setIntent(.old, of: stripe(of: "key", in: writer), to: StripeIntent(.toFile, at: address))
    }
    if isIndexLost {
      try FileManager.default.removeItem(atPath: cache.path(".packs/index"))
    } else {
      try NextBoot.begin(in: cache.root.string)
    }
    let store = try store()
    #expect(try store.touch("key") == .done)
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try control(of: store).intent(.old, of: stripe(of: "key", in: store)) == nil)
  }

  /// The directory of packs has its name on the medium before the first pack has its name.
  @Test func theDirectoryOfPacksIsOnTheMediumBeforeAPack() throws {
    let trace = CallTrace()
    try cache.store().store(payload(9000), for: "first")
    try store(files: trace.files) { $0.durability = .full }.store(payload(100), for: "key")
    let calls = trace.take()
    let made = try #require(calls.firstIndex { $0.call == .makeDirectory && $0.path.hasSuffix(".packs") })
    let named = try #require(
      calls.firstIndex { $0.path.contains(".packs/") && [.rename, .renameNoReplace].contains($0.call) })
    let isSynced = calls[made..<named].contains { $0.call == .sync && $0.path == cache.root.string }
    #expect(isSynced, "\(calls[made..<named])")
  }

  enum WayOut: CaseIterable { case largeStore, exclusiveAccess }

  @Test(arguments: WayOut.allCases, [BlobStore.Durability.barrier, .full])
  func aFileHasItsNameOnTheMediumBeforeItsPackedRecordIsDead(way: WayOut, durability: BlobStore.Durability) throws {
    let trace = CallTrace()
    let store = try store(files: trace.files) { $0.durability = durability }
    try store.store(payload(100), for: "key")
    _ = trace.take()
    switch way {
    case .largeStore: try store.store(payload(9000), for: "key")
    case .exclusiveAccess: try store.withExclusiveAccess(to: "key") { _ in }
    }
    let calls = trace.take()
    let dead = try #require(calls.firstIndex { $0.call == .markDead })
    let named = try #require(
      calls[..<dead].lastIndex { [.rename, .renameNoReplace, .link, .linkUnnamed].contains($0.call) })
    let synced = calls[named..<dead].filter { $0.call == .sync }.map(\.path)
    #expect(synced.contains { $0.hasSuffix("/ke") } && synced.contains(cache.root.string))
  }

  enum FileChange: CaseIterable { case lock, store, remove }

  /// The mark on a packed record is on the medium before a durable change of the file that has replaced it.
  @Test(arguments: FileChange.allCases) func aDurableChangeOfAFilePutsThePacksOnTheMediumFirst(
    change: FileChange
  ) throws {
    try store().store(payload(100), for: "key")
    try store().store(payload(9000), for: "key")
    let trace = CallTrace()
    let later = try store(files: trace.files) { $0.durability = .full }
    _ = try later.load("key")
    _ = trace.take()
    switch change {
    case .lock: #expect(try later.lock("key") == .done)
    case .store: try later.store(payload(9001), for: "key", locks: .one)
    case .remove: #expect(try later.remove("key") == .done)
    }
    let calls = trace.take()
    let synced = try #require(calls.firstIndex { $0.call == .sync && $0.path.hasSuffix(".packs/p-0") }, "\(calls)")
    let changed = try #require(
      calls.firstIndex { $0.path.hasSuffix("ke/key") && [.write, .rename, .unlink].contains($0.call) }, "\(calls)")
    #expect(synced < changed)
  }

  /// A file that a power cut has restored under a packed record does not reappear after both are removed.
  @Test func aDurableRemovalPutsTheUnlinkOfAHiddenFileOnTheMedium() throws {
    _ = try storeOverAFileThatStays()
    let trace = CallTrace()
    let remover = try store(files: trace.files) { $0.durability = .full }
    #expect(try remover.remove("key") == .done)
    let calls = trace.take()
    let unlinked = try #require(calls.firstIndex { $0.call == .unlink && $0.path.hasSuffix("ke/key") }, "\(calls)")
    let dead = try #require(calls.firstIndex { $0.call == .markDead }, "\(calls)")
    try #require(unlinked < dead)
    #expect(calls[unlinked..<dead].contains { $0.call == .sync && $0.path.hasSuffix("/ke") }, "\(calls)")
    #expect(try store().load("key") == nil)
  }

  /// A large blob replaces a packed one while a call fails: one of them exists, also after the next boot.
  @Test(arguments: [BlobStore.Durability.none, .barrier, .full])
  func aFailedStoreOverAPackedRecordLeavesOne(durability: BlobStore.Durability) throws {
    for call in 1... {
      let (cache, plan) = (try Cache(), FaultPlan())
      let store = try cache.store(files: plan.files()) {
        $0.packing = .upTo(8192)
        $0.durability = durability
      }
      try store.store(payload(100), for: "key")
      plan.arm(FaultPlan.Fault(.ioError, call: call))
      do {
        try store.store(payload(9000), for: "key")
      } catch {
        #expect(error.path != nil && !plan.failed.isEmpty, "call \(call)")
      }
      plan.disarm()
      let loaded = try store.load("key")?.payload
      #expect(loaded == payload(100) || loaded == payload(9000), "call \(call)")
      try NextBoot.begin(in: cache.root.string)
      let later = try cache.store { $0.packing = .upTo(8192) }
      #expect(try later.load("key")?.payload == loaded, "call \(call)")
      #expect(try later.usage().records == 1, "call \(call)")
      guard !plan.failed.isEmpty else { return #expect(call > 5 && loaded == payload(9000)) }
    }
  }
}
