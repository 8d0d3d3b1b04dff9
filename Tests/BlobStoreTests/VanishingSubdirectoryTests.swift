import BlobRecord
import BlobStore
import Foundation
import Locks
import PosixFiles
import SystemPackage
import TestSupport
import Testing

@Suite struct VanishingSubdirectoryTests {
  /// Collections that follow each other closely may remove the empty subdirectory each time it was made. Found by the
  /// torture run.
  @Test func aStoreOutlastsCollectionsThatRemoveItsSubdirectory() throws {
    let directory = try TemporaryDirectory()
    let failuresLeft = Lock(20)
    let files = Files { call, location in
      let path = location.path
      guard call == .open, path.lastComponent?.string.hasPrefix(".tmp-") ?? false,
        path.removingLastComponent().lastComponent?.string == "ke"
      else { return nil }
      return failuresLeft.withLock { left in
        guard left > 0 else { return nil }
        left -= 1
        return .fail(.noSuchFileOrDirectory)
      }
    }
    var configuration = BlobStore.Configuration()
    configuration.durability = .none
    let store = try BlobStore(directory: directory.path.appending("cache"), configuration: configuration, files: files)
    try store.store(Data([1]), for: "key")
    #expect(try store.load("key")?.payload == Data([1]))
    #expect(failuresLeft.withLock { $0 } == 0)
  }
}
