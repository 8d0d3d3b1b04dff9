import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

@Suite struct PackDirectoryTests {
  let cache: Cache
  let root: OpenRoot

  init() throws {
    cache = try Cache()
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    root = try #require(try store.core.root.opened())
  }

  @Test func aMissingOneIsMadeOnDemand() throws {
    #expect(try PackDirectory.open(in: root, makesIt: false) == nil)
    let made = try #require(try PackDirectory.open(in: root, makesIt: true))
    #expect(try cache.state(".packs")?.permissions == 0o700)
    #expect(try made.isCurrent(in: root))
    #expect(try PackDirectory.open(in: root, makesIt: false) != nil)
  }

  @Test(arguments: [true, false]) func somethingElseOfItsNameStays(makesIt: Bool) throws {
    try cache.write([1], to: ".packs")
    #expect(try PackDirectory.open(in: root, makesIt: makesIt) == nil)
    try FileManager.default.removeItem(atPath: cache.path(".packs"))
    try FileManager.default.createSymbolicLink(atPath: cache.path(".packs"), withDestinationPath: "/tmp")
    #expect(try PackDirectory.open(in: root, makesIt: makesIt) == nil)
  }

  @Test func oneThatOthersMayWriteToIsLeftAlone() throws {
    // Others need access to the root to reach the directory.
    try check(chmod(cache.root.string, 0o755), "chmod")
    try cache.makeDirectory(".packs")
    try check(chmod(cache.path(".packs"), 0o777), "chmod")
    let root = try #require(try cache.store().core.root.opened())
    #expect(try PackDirectory.open(in: root, makesIt: true) == nil)
  }

  /// F3a.
  @Test func itIsNotForeignUnlessItIsAnothers() throws {
    let bench = try PackBench()
    _ = try (bench.pack(), bench.index())
    #expect(try bench.store.usage().foreignFiles == 0 && bench.store.usage().records == 1)
    try FileManager.default.removeItem(atPath: bench.path(""))
    try bench.cache.write([1], to: ".packs")
    #expect(try bench.store.usage().foreignFiles == 1)
  }

  @Test func aReplacedOneIsNoticed() throws {
    let opened = try #require(try PackDirectory.open(in: root, makesIt: true))
    try FileManager.default.removeItem(atPath: cache.path(".packs"))
    #expect(try !opened.isCurrent(in: root))
    try cache.makeDirectory(".packs")
    #expect(try !opened.isCurrent(in: root))
  }

  @Test func otherErrorsAreReported() throws {
    let cache = try Cache()
    let plan = FaultPlan()
    let store = try cache.store(files: plan.files())
    try store.store(payload(10), for: "key")
    let root = try #require(try store.core.root.opened())
    plan.arm(FaultPlan.Fault(.ioError, call: 1, of: [.openDirectory]))
    #expect(throws: FileError.self) { try PackDirectory.open(in: root, makesIt: true) }
  }
}
