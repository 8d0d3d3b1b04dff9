internal import BlobRecord
internal import Posix
internal import SystemPackage

/// `CACHEDIR.TAG` at the root, by which backup programs recognize a cache and skip it.
///
/// In the flat layout, a record with the key `CACHEDIR.TAG` would have this name, so there the tag is written only if
/// names are hashes. With subdirectories, no record is stored at the root.
///
/// Source: B. Ford, "Cache Directory Tagging Specification", https://bford.info/cachedir/.
package enum CacheDirectoryTag {
  package static let name = "CACHEDIR.TAG"

  package static let content = """
    Signature: 8a477f597d28d172789f06886806bc55
    # This file says that the directory is a cache, made by BlobCache.
    # What it means: https://bford.info/cachedir/

    """

  /// Returns whether a name at the root belongs to the tag, and not to a record.
  static func isTag(_ name: String, in layout: RecordLayout) -> Bool {
    name == Self.name && layout.path(ofFileName: name, in: "") == nil
  }
}
