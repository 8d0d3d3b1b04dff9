internal import BlobRecord
internal import Posix

extension BlobStore {
  /// Checks whether the root was replaced at its path. If so, it is released as soon as no operation uses it.
  package func lookAtRoot() {
    // The next operation reports an error.
    _ = try? core.root.forgetIfReplacedNow()
  }

  /// A number that grows whenever the directory at the root's path may have been replaced or removed.
  package var rootChanges: UInt64 { core.root.changes }

  /// Creates `CACHEDIR.TAG` in the directory, unless it exists or could be mistaken for a record.
  package func leaveCacheTag() throws(BlobStoreError) {
    try withErrorContext("store") {
      guard let open = try core.root.opened(),
        CacheDirectoryTag.isTag(CacheDirectoryTag.name, in: core.layout(of: open))
      else { return }
      guard try open.directory.status(of: CacheDirectoryTag.name) == nil else { return }
      // The file is complete before it gets its name, because a partial signature would be invalid.
      var temporary = try FileDraft(
        in: OpenSubdirectory(open.directory.reopened()), of: open.ownership, names: core.temporaryNames)
      let content = Array(CacheDirectoryTag.content.utf8)
      try temporary.file.write(unsafe content.span.bytes, at: 0)
      _ = try temporary.commitOrLink(as: CacheDirectoryTag.name)
    }
  }
}
