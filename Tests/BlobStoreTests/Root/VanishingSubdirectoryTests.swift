import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

@Suite struct VanishingSubdirectoryTests {
  /// Frequent collections may remove the empty subdirectory each time it is created. This was found by the torture
  /// run.
  @Test func aStoreOutlastsCollectionsThatRemoveItsSubdirectory() throws {
    let directory = try TemporaryDirectory()
    let failuresLeft = Lock(20)
    let files = Files { call, location in
      let path = location.path
      guard call == .open || call == .openUnnamed, path.removingLastComponent().lastComponent?.string == "ke"
      else { return nil }
      return failuresLeft.withLock { left in
        guard left > 0 else { return nil }
        left -= 1
        return .fail(.noSuchFileOrDirectory)
      }
    }
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.layout.arrangement = .prefix
    configuration.durability = .none
    let store = try BlobStore(directory: directory.path.appending("cache"), configuration: configuration, files: files)
    try store.store(Data([1]), for: "key")
    #expect(try store.load("key")?.payload == Data([1]))
    #expect(failuresLeft.withLock { $0 } == 0)
  }

  /// An unnamed file does not prevent the removal of its subdirectory, so the second attempt uses a name.
  @Test(.enabled(if: SystemCall.hasUnnamedFiles)) func aSubdirectoryThatVanishesUnderAFileWithoutAName() throws {
    let cache = try Cache()
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      if call == .linkUnnamed { rmdir(path.removingLastComponent().string) }
      return nil
    }
    try store.store(payload(10), for: "key")
    #expect(trace.count(.linkUnnamed) == 1)
    #expect(try store.load("key")?.payload == payload(10))
    // This does not count as missing support, so the next file is again created without a name.
    trace.onCall(nil)
    _ = trace.take()
    try store.store(payload(11), for: "another")
    #expect(trace.count(.linkUnnamed) == 1)
  }

  /// Where unnamed files cannot be created or linked, files have a name from the start.
  @Test(arguments: [
    (SystemCall.openUnnamed, Errno.notSupported), (.openUnnamed, .isDirectory), (.linkUnnamed, .notPermitted),
    (.linkUnnamed, .permissionDenied), (.linkUnnamed, .noSuchFileOrDirectory), (.linkUnnamed, .improperLink),
  ]) func filesThatCannotBeWithoutAName(call: SystemCall, errno: Errno) throws {
    let cache = try Cache()
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { found, _ in found == call ? .fail(errno) : nil }
    for size in 10..<13 { try store.store(payload(size), for: "key") }
    #expect(trace.count(call) <= 1)
    #expect(try store.load("key")?.payload == payload(12))
    #expect(try cache.files() == ["ke/key"])
  }
}
