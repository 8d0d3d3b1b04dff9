import BlobRecord
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// The inspection of a record by the path of its file in the directory.
@Suite struct InspectFileTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func link(_ name: String, to target: String) throws {
    try FileManager.default.createSymbolicLink(atPath: cache.path(name), withDestinationPath: target)
  }

  @Test func aFileIsInspectedAsItIs() throws {
    let store = try cache.store()
    #expect(try store.inspectRecord(inFile: "ke/key", checkingUpTo: .max) == nil)
    try store.store(payload(5), for: "key")
    let found = try #require(try store.inspectRecord(inFile: "ke/key", checkingUpTo: .max))
    #expect(found.key == "key")
    #expect(found.state == .live)
    #expect(found.path.string == cache.path("ke/key"))
    #expect(found.payloadChecksum != nil)
    #expect(try store.inspectRecord(inFile: "ke/key", checkingUpTo: 4)?.payloadChecksum == nil)
    #expect(try store.inspectRecord(inFile: "ke/other", checkingUpTo: .max) == nil)
    #expect(try store.inspectRecord(inFile: "ot/key", checkingUpTo: .max) == nil)
  }

  @Test func damageIsShown() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try Damage.invalidHeaderCRC.inflict(on: "ke/key", in: cache)
    #expect(try store.inspectRecord(inFile: "ke/key", checkingUpTo: .max)?.state == .damaged)
    #expect(try store.inspectRecord(of: "key")?.state == .damaged)
  }

  /// A link to a subdirectory would show files of other directories, as a link to a file would.
  @Test func noLinkIsFollowed() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try link("links", to: cache.path("ke"))
    try link("key", to: cache.path("ke/key"))
    for path in ["links/key", "key"] as [FilePath] {
      expect(.foreignFile) { _ = try store.inspectRecord(inFile: path, checkingUpTo: .max) }
    }
    try FileManager.default.moveItem(atPath: cache.path("ke"), toPath: cache.path("elsewhere"))
    try link("ke", to: cache.path("elsewhere"))
    expect(.foreignFile) { _ = try store.inspectRecord(of: "key") }
  }

  @Test(arguments: ["../cache/ke/key", "ke/../ke/key", "./ke/key", "/etc/passwd"])
  func onlyPathsOfRecordsAreOpened(path: String) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    expect(.foreignFile) { _ = try store.inspectRecord(inFile: FilePath(path), checkingUpTo: .max) }
  }

  /// A directory is no record, and neither is anything below a file.
  @Test(arguments: ["ke", "ke/key/x"]) func whatIsNoFileIsNoRecord(path: String) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    expect(.foreignFile) { _ = try store.inspectRecord(inFile: FilePath(path), checkingUpTo: .max) }
  }
}
