import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, P3, P6, P7: a root that is removed, replaced or changed while a store uses it.
@Suite struct ReplacedRootTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// Waits until the root is due for its next check.
  private func waitForNextLook() { Thread.sleep(forTimeInterval: 1.1) }

  /// P6: with and without subdirectories, and from a descriptor.
  @Test(arguments: [true, false], [true, false]) func removedRootIsMadeAgain(separates: Bool, fromInput: Bool) throws {
    let store = try cache.store { $0.layout.separatesDirectories = separates }
    try store.store(payload(5), for: "key")
    try FileManager.default.removeItem(atPath: cache.path(""))
    #expect(try store.load("key") == nil)
    #expect(try store.lock("key") == .notFound)
    #expect(try store.remove("key") == .notFound)
    if fromInput {
      let source = cache.outside.path.appending("source")
      try payload(6).write(to: URL(filePath: source.string))
      let input = try FileDescriptor.open(source, .readOnly, options: .closeOnExec)
      try store.store(contentsOf: input, for: "key")
      try input.close()
    } else {
      try store.store(payload(6), for: "key")
    }
    #expect(try store.load("key")?.payload == payload(6))
    #expect(try cache.files() == [separates ? "ke/key" : "key"])
  }

  /// P6: with packs, before the first record.
  @Test func removedRootIsMadeAgainForAPack() throws {
    try cache.makeDirectory("")
    let store = try cache.store { $0.packing = .upTo(8192) }
    #expect(try store.load("key") == nil)
    try FileManager.default.removeItem(atPath: cache.path(""))
    try store.store(payload(6), for: "key")
    #expect(try store.load("key")?.payload == payload(6))
    #expect(try cache.files() == Cache.filesOfPacks)
  }

  /// P6a: also in a process that has not changed the directory.
  @Test func removedRootWithPacksIsNoticedWithinASecond() throws {
    let (store, reader) = (try cache.store { $0.packing = .upTo(8192) }, try cache.store())
    try store.store(payload(5), for: "key")
    #expect(try reader.load("key")?.payload == payload(5))
    try FileManager.default.removeItem(atPath: cache.path(""))
    waitForNextLook()
    #expect(try store.load("key") == nil)
    #expect(try reader.load("key") == nil)
    try store.store(payload(6), for: "key")
    #expect(try cache.files() == Cache.filesOfPacks)
    #expect(try reader.load("key")?.payload == payload(6))
  }

  /// P6: also if the subdirectory is removed in the middle of a store.
  @Test func subdirectoryRemovedUnderAStoreIsMadeAgain() throws {
    let trace = CallTrace()
    let cache = cache
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in
      guard call == .write else { return nil }
      trace.onCall(nil)
      try? FileManager.default.removeItem(atPath: cache.path(""))  // Failures show in the expectations below.
      return nil
    }
    try store.store(payload(5), for: "key")
    #expect(try cache.files() == ["ke/key"])
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// P7: both roots have the key, with values that identify the root.
  @Test(arguments: ["load", "header", "lock", "remove", "store", "records", "usage"])
  func replacedRootIsNoticed(operation: String) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try check(rename(cache.path(""), cache.outside.path.string + "/moved"), "rename")
    try cache.store().store(payload(6), for: "key")
    waitForNextLook()
    let moved = cache.outside.path.string + "/moved/ke/key"
    let before = try fileState(moved)
    switch operation {
    case "load": #expect(try store.load("key")?.payload == payload(6))
    case "header": #expect(try store.header(for: "key")?.payloadSize == 6)
    case "lock":
      #expect(try store.lock("key") == .done)
      #expect(try cache.header("ke/key").refCount == 1)
    case "remove":
      #expect(try store.remove("key") == .done)
      #expect(try cache.files() == [])
    case "store":
      try store.store(payload(7), for: "key")
      #expect(try cache.bytes("ke/key").count == 71)
    case "records": #expect(try store.records().map(\.fileSize) == [70])
    default: #expect(try store.usage().bytes == 70)
    }
    #expect(try fileState(moved) == before)
  }

  /// P7: a check costs a system call, so it is made at most once per second.
  @Test func rootIsLookedAtOnceASecond() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    func looks(_ loads: Int) throws -> Int {
      _ = trace.take()
      for _ in 0..<loads { _ = try store.load("key") }
      return trace.take().count { $0.call == .status && $0.path == cache.root.string }
    }
    #expect(try looks(100) == 0)
    trace.wait(milliseconds: 1000)
    #expect(try looks(100) == 1)
  }

  /// P3: new files follow the current permissions of the root.
  @Test func changedPermissionsAreNoticed() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    #expect(try cache.state("ke/key")?.permissions == 0o600)
    try check(chmod(cache.root.string, 0o750), "chmod")
    waitForNextLook()
    try store.store(payload(5), for: "other")
    #expect(try cache.state("ot")?.permissions == 0o750)
    #expect(try cache.state("ot/other")?.permissions == 0o640)
  }
}
