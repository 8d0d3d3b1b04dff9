import BlobStore
import Testing

/// An odd thing in a cache directory.
struct HostileThing: Sendable, CustomTestStringConvertible {
  /// The operations that still work on the rest of the cache.
  enum Rest: Sendable {
    case everything
    /// Changes fail with a typed error, but loads work.
    case looking
    /// Operations that need all records fail with a typed error.
    case nothing
  }

  let name: String
  /// Paths below the root that belong to no cache. They must remain unchanged, including their content.
  var foreign: [String] = []
  var rest = Rest.everything
  var policy = BlobStore.DamagePolicy.report
  /// A Boolean value that indicates whether the odd key's blob is also outside: a hard link is a file like any other.
  var mayFindOutside = false
  /// A Boolean value that indicates whether the test needs another user's permissions, because root ignores them.
  var needsPermissions = false
  /// A Boolean value that indicates whether only root can create the thing.
  var needsRoot = false
  /// A Boolean value that indicates whether small records are stored in packs, except for pinned ones.
  var packs = false
  let plant: @Sendable (HostileCache) throws -> Void

  var testDescription: String { name }

  static let all =
    atTheRecord + files + atTheSubdirectory + strangers + temporaries + quarantines + bins + controls + packs
}
