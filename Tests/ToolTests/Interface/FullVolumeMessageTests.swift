import SystemPackage
import Testing

@testable import BlobCacheCommands
@testable import BlobStore

/// The message about a full volume describes how to free space.
@Suite struct FullVolumeMessageTests {
  private func text(_ errno: Errno) -> String {
    BlobStoreError(.fileSystem, "pwritev(2): \(errno)", path: "cache/ke/key", errno: errno).text(for: "store")
  }

  @Test(arguments: [Errno.noSpace, .diskQuotaExceeded]) func aFullVolumeNamesCollect(errno: Errno) {
    #expect(
      text(errno)
        == "store: pwritev(2): \(errno): cache/ke/key; blobcache collect, with --size-limit or --empty-bin, makes room")
  }

  @Test(
    arguments: [
      (.ioError, "; the medium may be failing: see the kernel's log"),
      (.readOnlyFileSystem, "; the volume is mounted read-only"),
      (.tooManyOpenFiles, "; raise the process's limit, `ulimit -n`"),
      (.fileTooLarge, "; raise the process's limit of file sizes, `ulimit -f`"), (.permissionDenied, ""),
    ] as [(Errno, String)]) func othersSayWhatMendsThem(errno: Errno, remedy: String)
  {
    #expect(text(errno) == "store: pwritev(2): \(errno): cache/ke/key\(remedy)")
  }
}
