import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Collections remove files that killed processes have left next to packs.
@Suite struct PackLeftoverTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func records(_ store: BlobStore) throws -> PackRecords {
    let open = try #require(try store.core.root.opened())
    return try #require(try Records(store.core).packs(of: open))
  }

  // MARK: Drafts

  /// C4.
  @Test func draftsOfTheDeadGo() throws {
    let store = try store()
    try store.store(payload(100), for: "key")
    let kept = Cache.filesOfPacks.union([".packs/.tmp-AB", ".packs/.tmp-somebody"])
    for file in [".packs/.tmp-1", ".packs/.tmp-2", ".packs/.tmp-AB", ".packs/.tmp-somebody"] {
      try cache.write([1, 2, 3], to: file)
    }
    let writer = try LockedFile(cache.path(".packs/.tmp-2"))
    var options = BlobStore.CollectionOptions()
    options.dryRun = true
    #expect(try store.collect(options).temporary == 1)
    let report = try store.collect()
    #expect(report.temporary == 1 && report.bytesFreed == 3 && report.failed == 0)
    #expect(try cache.files() == kept.union([".packs/.tmp-2"]))
    try writer.unlock()
    #expect(try store.collect().temporary == 1)
    #expect(try cache.files() == kept)
    #expect(try self.store().load("key")?.payload == payload(100))
  }

  /// A process is killed while it creates the first pack.
  @Test func whatIsLeftOfTheFirstPackGoes() throws {
    let copy = try Cache()
    let (root, to) = (cache.root.string, copy.root.string)
    let store = try store(
      files: Files { call, path in
        guard [.rename, .renameNoReplace, .link].contains(call), path.path.string.contains(".packs/"),
          !FileManager.default.fileExists(atPath: to)
        else { return nil }
        do { try FileManager.default.copyItem(atPath: root, toPath: to) } catch { Issue.record(error) }
        return nil
      })
    try store.store(payload(100), for: "key")
    let left = try copy.files()
    #expect(left.contains { $0.hasPrefix(".packs/.tmp-") }, "\(left)")
    let later = try copy.store { $0.packing = .upTo(8192) }
    #expect(try later.collect().failed == 0)
    #expect(try !copy.files().contains { $0.contains(".tmp-") })
  }

  @Test func aDraftThatCannotBeRemovedIsReported() throws {
    try store().store(payload(100), for: "key")
    try cache.write([1, 2, 3], to: ".packs/.tmp-1")
    let store = try store(
      files: Files { call, path in
        call == .unlink && path.path.string.hasSuffix(".packs/.tmp-1") ? .fail(.ioError) : nil
      })
    let report = try store.collect()
    #expect(report.failed == 1 && report.temporary == 0)
    #expect(try self.store().collect().temporary == 1)
  }

  // MARK: A growing index

  /// A process has died while it filled a larger index.
  @Test func anIndexThatNoProcessFillsGoes() throws {
    let store = try store()
    try store.store(payload(100), for: "key")
    let records = try records(store)
    let growth = try PackIndexGrowth.begin(
      of: records.packs.index, in: records.packs.files.directory, names: store.core.temporaryNames)
    #expect(records.control.beginGrowth(to: growth.new.number))
    #expect(try store.collect().failed == 0)
    #expect(records.control.growingIndex == nil)
    #expect(try cache.files() == Cache.filesOfPacks)
    #expect(try self.store().load("key")?.payload == payload(100))
  }

  /// A process has died before it renamed the current index.
  @Test func anIndexInForceGetsItsName() throws {
    let store = try store()
    try store.store(payload(100), for: "key")
    let records = try records(store)
    let path = try store.core.path(for: "key")
    let place = try #require(try records.find(path, by: RecordJudge())?.packAddress)
    let growth = try PackIndexGrowth.begin(
      of: records.packs.index, in: records.packs.files.directory, names: store.core.temporaryNames)
    #expect(records.control.beginGrowth(to: growth.new.number))
    #expect(growth.copy(path.digest, at: PackAddress(rawValue: place)) == .copied)
    #expect(records.control.endGrowth(to: growth.new.number))
    records.control.settleGrowth()
    #expect(try store.collect().failed == 0)
    #expect(records.control.packIndexNumber == growth.new.number)
    #expect(try cache.files() == Cache.filesOfPacks)
    #expect(try self.store().load("key")?.payload == payload(100))
  }

  /// An index stays while another process holds the lock byte of the growing index.
  @Test func anIndexThatIsFilledStays() throws {
    let (store, other) = try (store(), store())
    try store.store(payload(100), for: "key")
    let filling = try records(other)
    let growth = try PackIndexGrowth.begin(
      of: filling.packs.index, in: filling.packs.files.directory, names: other.core.temporaryNames)
    #expect(filling.control.beginGrowth(to: growth.new.number))
    #expect(try filling.control.file.tryLock(ControlLayout.packByte))
    #expect(try store.collect().failed == 0)
    #expect(filling.control.growingIndex?.number == growth.new.number)
    #expect(try cache.exists(".packs/index.next"))
    filling.control.file.unlock(ControlLayout.packByte)
    #expect(try store.collect().failed == 0)
    #expect(try !cache.exists(".packs/index.next"))
  }
}
