internal import BlobRecord
internal import Posix
internal import SystemPackage

/// `CACHEDIR.TAG` at the root, by which backup programs know a cache and leave it out.
///
/// In the flat layout, the record of the key `CACHEDIR.TAG` would have this name, so there is no tag unless names are
/// hashes. With subdirectories that record lies in one, and never meets the tag.
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
