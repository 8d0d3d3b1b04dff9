import BlobStore
import Testing

/// One odd thing in a cache directory.
struct HostileThing: Sendable, CustomTestStringConvertible {
  /// What can be done with the rest of the cache.
  enum Rest: Sendable {
    case everything
    /// Changes fail with a typed error; loads go on.
    case looking
    /// Whatever needs to know all records fails with a typed error.
    case nothing
  }

  let name: String
  /// Paths below the root that are none of ours: they must stay exactly as they are, with all below them.
  var foreign: [String] = []
  var rest = Rest.everything
  var policy = BlobStore.DamagePolicy.report
  /// Whether the odd key's blob is one that lies outside too: by a hard link, a file like any other.
  var mayFindOutside = false
  /// Whether the test must run with another user's permissions, because root ignores them.
  var needsPermissions = false
  /// Whether only root can make it.
  var needsRoot = false
  /// Whether small records lie in packs, but for those that have to stay.
  var packs = false
  let plant: @Sendable (HostileCache) throws -> Void

  var testDescription: String { name }

  static let all =
    atTheRecord + files + atTheSubdirectory + strangers + temporaries + quarantines + bins + controls + packs
}
