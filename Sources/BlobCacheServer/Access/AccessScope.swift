/// A kind of requests that a caller may make.
public enum AccessScope: String, CaseIterable, Comparable, Sendable {
  /// Blobs, records, lists and counts are answered.
  case read
  /// Blobs are stored, removed, touched, locked and unlocked.
  case write
  /// What concerns the directory as a whole, such as a collection.
  case admin

  /// The scopes of a text such as `read,write`; nil for anything else.
  public static func set(_ text: some StringProtocol) -> Set<AccessScope>? {
    var scopes: Set<AccessScope> = []
    for name in text.split(separator: ",", omittingEmptySubsequences: false) {
      guard let scope = AccessScope(rawValue: String(name)) else { return nil }
      scopes.insert(scope)
    }
    return scopes
  }

  public static func < (a: AccessScope, b: AccessScope) -> Bool { a.rank < b.rank }

  private var rank: Int {
    switch self {
    case .read: 0
    case .write: 1
    case .admin: 2
    }
  }
}
