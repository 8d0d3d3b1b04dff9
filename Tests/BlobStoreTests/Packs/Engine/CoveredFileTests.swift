import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Spec/Semantics.md, C4b: a file hidden by a packed record with the same name, as a power cut may leave it.
@Suite struct CoveredFileTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  private static let file = "ke/key"

  /// Simulates a power cut after a small store over a file, which restores the name of the file.
  ///
  /// - Returns: The place of the packed record.
  @discardableResult private func cover() throws -> PackedPlace {
    let writer = try store()
    try writer.store(payload(9000), for: "key")
    let old = try cache.bytes(Self.file)
    try writer.store(payload(100), for: "key")
    try cache.write(old, to: Self.file)
    try NextBoot.begin(in: cache.root.string)
    return try #require(try store().records().first { $0.key == "key" }?.packed)
  }

  @Test func itGoesWithACollectionAndDoesNotComeBack() throws {
    try cover()
    let store = try store()
    let usage = try store.usage()
    #expect(usage.records == 1)
    let report = try store.collect()
    #expect(report.failed == 0 && report.expired == 0 && report.recordsAfter == 1 && report.bytesAfter == usage.bytes)
    #expect(try !cache.exists(Self.file))
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try store.remove("key") == .done)
    try NextBoot.begin(in: cache.root.string)
    #expect(try self.store().load("key") == nil)
  }

  @Test func aDryRunLeavesIt() throws {
    try cover()
    var options = BlobStore.CollectionOptions()
    options.dryRun = true
    #expect(try store().collect(options).subdirectories == 1)
    #expect(try cache.exists(Self.file))
  }

  /// A process was killed in a large store after naming the file. The packed record exists until the stripe is taken.
  @Test func aFileThatCountsStays() throws {
    let place = try cover()
    let store = try store()
    let path = try store.core.path(for: "key")
    let open = try #require(try store.core.root.opened())
    let control = try #require(try open.controlFile(store.core.configuration.logger))
    control.setIntent(
      .old, of: ControlLayout.stripe(of: path.digest), to: StripeIntent(.toFile, at: place.address))
    #expect(try store.collect().failed == 0)
    #expect(try cache.exists(Self.file))
    #expect(try store.load("key")?.payload == payload(9000))
    #expect(try store.usage().records == 1)
  }

  /// The file is unlinked before its subdirectory is synced, so the packed record counts despite the error.
  @Test func aStoreWhoseUnlinkIsNotSyncedIsAnErrorAndCounts() throws {
    let writer = try self.store()
    try writer.store(payload(9000), for: "key")
    try writer.collect()
    let trace = CallTrace()
    let store = try store(files: trace.files) { $0.durability = .full }
    trace.onCall { call, path in
      call == .sync && path.lastComponent?.string == "ke" ? .fail(.ioError) : nil
    }
    expect(.fileSystem) { try store.store(payload(100), for: "key") }
    trace.onCall(nil)
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try !cache.exists(Self.file))
    let usage = try store.usage()
    let estimate = try #require(try store.usageEstimate())
    #expect(estimate.records == usage.records && estimate.bytes == usage.bytes)
  }

  /// A failed move leaves nothing to finish, because the old file would then be treated as the new one.
  @Test(arguments: [false, true]) func aMoveToAFileThatFailsDoesNotBringItBack(isStore: Bool) throws {
    try cover()
    let trace = CallTrace()
    let store = try store(files: trace.files)
    trace.onCall { call, path in
      let takesName: Set<SystemCall> = [.rename, .renameNoReplace, .renameExchange, .link, .linkUnnamed]
      return takesName.contains(call) && path.string.hasSuffix(Self.file) ? .fail(.ioError) : nil
    }
    expect(.fileSystem) {
      if isStore {
        try store.store(payload(9000, 2), for: "key")
      } else {
        try store.withExclusiveAccess(to: "key") { _ in }
      }
    }
    trace.onCall(nil)
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try self.store().load("key")?.payload == payload(100))
  }

  /// The file may be the only copy if the packed record is damaged.
  @Test func aFileBeneathADamagedRecordStays() throws {
    let place = try cover()
    let file = try FileHandle(forUpdating: URL(filePath: cache.path(".packs/p-0")))
    let payloadOffset = PackLayout.fileOffset(ofChunk: place.chunk) + place.offset + 40 + "key".utf8.count
    try file.seek(toOffset: UInt64(payloadOffset))
    try file.write(contentsOf: Data([0xFF, 0xFE, 0xFD]))
    try file.close()
    #expect(try store().collect().failed == 0)
    #expect(try cache.exists(Self.file))
  }

  /// The next collection retries, even if the subdirectory has not changed.
  @Test func aFileWhoseStripeIsHeldGoesLater() throws {
    try cover()
    let store = try store()
    let stripe = Int64(ControlLayout.stripe(of: try store.core.path(for: "key").digest))
    let stopped = try HeldLocks(in: cache)
    #expect(try stopped.take(stripe..<stripe + 1))
    #expect(try store.collect().failed == 0)
    #expect(try cache.exists(Self.file))
    try stopped.giveBack(stripe..<stripe + 1)
    try store.collect()
    #expect(try !cache.exists(Self.file))
  }

  @Test func aFailureIsReportedAndTriedAgain() throws {
    try cover()
    let store = try store(
      files: Files { call, path in
        call == .unlink && path.path.string.hasSuffix(Self.file) ? .fail(.ioError) : nil
      })
    #expect(try store.collect().failed == 1)
    #expect(try cache.exists(Self.file))
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try self.store().collect().failed == 0)
    #expect(try !cache.exists(Self.file))
    #expect(try store.load("key")?.payload == payload(100))
  }
}
