internal import BlobRecord
internal import Posix

extension BlobStore {
  /// Looks whether the root is still the one at the path; if not, it is let go as soon as no operation uses it.
  package func lookAtRoot() {
    // An error here is left to the next operation, which reports it.
    _ = try? core.root.forgetIfReplacedNow()
  }

  /// A number that grows whenever another directory may have come to the root's path, or none may be there any more.
  package var rootChanges: UInt64 { core.root.changes }

  /// Leaves `CACHEDIR.TAG` in the directory, where it can be told from a record and is not there already.
  ///
  /// - Throws: `fileSystem`.
  package func leaveCacheTag() throws(BlobStoreError) {
    try withErrorContext("store") {
      guard let open = try core.root.opened(),
        CacheDirectoryTag.isTag(CacheDirectoryTag.name, in: core.layout(of: open))
      else { return }
      guard try open.directory.status(of: CacheDirectoryTag.name) == nil else { return }
      // Whole before it has its name: half a signature would be none.
      var temporary = try FileDraft(
        in: OpenSubdirectory(open.directory.reopened()), of: open.ownership, names: core.temporaryNames)
      let content = Array(CacheDirectoryTag.content.utf8)
      try temporary.file.write(unsafe content.span.bytes, at: 0)
      _ = try temporary.commitOrLink(as: CacheDirectoryTag.name)
    }
  }
}
