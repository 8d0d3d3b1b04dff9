/// What a request needs, which its route names.
struct Permission: Equatable {
  let scope: AccessScope
  let reach: Reach

  /// Which keys a request is about.
  enum Reach: Equatable {
    case key(String)
    /// Keys that begin so, byte for byte.
    case prefix(String)
    /// All keys, or what concerns none.
    case directory
  }

  /// Whether all that is reached lies among keys that begin so.
  ///
  /// - Parameter place: what stands before each key.
  func isWithin(_ prefix: String, at place: String) -> Bool {
    let reached =
      switch reach {
      case .key(let text), .prefix(let text): place + text
      case .directory: place
      }
    // Texts that Swift takes for equal may be two keys.
    return reached.utf8.starts(with: prefix.utf8)
  }
}
