internal import BlobRecord
internal import Posix
internal import SystemPackage

/// `CACHEDIR.TAG` at the root, by which backup programs know a cache and leave it out.
///
/// The name is that of the record of the key `CACHEDIR.TAG` where records lie at the root: in the flat layout there is
/// no tag, unless names are hashes. With subdirectories that record lies in one, and never meets the tag.
///
/// Source: B. Ford, "Cache Directory Tagging Specification", https://bford.info/cachedir/.
package enum CacheDirectoryTag {
  package static let name = "CACHEDIR.TAG"

  /// The specification's signature, and what a person needs to know.
  package static let content = """
    Signature: 8a477f597d28d172789f06886806bc55
    # This file says that the directory is a cache, made by BlobCache.
    # What it means: https://bford.info/cachedir/

    """

  /// Whether a name at the root is the tag's, rather than a record's.
  static func isTag(_ name: String, in layout: RecordLayout) -> Bool {
    name == Self.name && layout.path(ofFileName: name, in: "") == nil
  }
}

extension BlobStore {
  /// Leaves `CACHEDIR.TAG` in the directory, where it can be told from a record and is not there already.
  ///
  /// - Throws: `fileSystem`.
  package func leaveCacheTag() throws(BlobStoreError) {
    try reporting("store") {
      guard CacheDirectoryTag.isTag(CacheDirectoryTag.name, in: core.configuration.layout),
        let open = try core.root.opened()
      else { return }
      guard try open.directory.status(of: CacheDirectoryTag.name) == nil else { return }
      // Whole before it has its name: half a signature would be none.
      var temporary = try FileDraft(
        in: OpenSubdirectory(open.directory.reopened()), of: open.ownership, names: core.temporaryNames)
      let content = Array(CacheDirectoryTag.content.utf8)
      try temporary.file.write(unsafe content.span.bytes, at: 0)
      if try temporary.commit(as: CacheDirectoryTag.name) == nil {
        _ = try temporary.link(as: CacheDirectoryTag.name)
      }
    }
  }
}
