import SystemPackage
import Testing

@testable import BlobCacheCommands
@testable import BlobStore

/// What a full volume has kept from its work says what makes room; nothing else does.
@Suite struct FullVolumeMessageTests {
  private func text(_ errno: Errno) -> String {
    BlobStoreError(.fileSystem, "pwritev(2): \(errno)", path: "cache/ke/key", errno: errno).text(for: "store")
  }

  @Test(arguments: [Errno.noSpace, .diskQuotaExceeded]) func aFullVolumeNamesCollect(errno: Errno) {
    #expect(
      text(errno)
        == "store: pwritev(2): \(errno): cache/ke/key; blobcache collect, with --size-limit or --empty-bin, makes room")
  }

  @Test(arguments: [Errno.ioError, .readOnlyFileSystem, .permissionDenied]) func othersDoNot(errno: Errno) {
    #expect(text(errno) == "store: pwritev(2): \(errno): cache/ke/key")
  }
}
