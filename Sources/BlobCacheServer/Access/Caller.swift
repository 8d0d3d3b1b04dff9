/// From whom a request comes, and what that one may do.
struct Caller: Sendable {
  /// For the log; nil for a request without a token.
  let name: String?
  let scopes: Set<AccessScope>
  /// What the keys begin with that the caller may reach; empty for all.
  let keyPrefix: String
  /// What stands before keys and the prefix, where there are many directories: the name of one and a slash.
  var place = ""

  /// Everybody, where there are no tokens.
  static let anyone = Caller(name: nil, scopes: Set(AccessScope.allCases), keyPrefix: "")

  func may(_ permission: Permission) -> Bool {
    scopes.contains(permission.scope) && permission.isWithin(keyPrefix, at: place)
  }

  /// - Throws: 401 where a token is missing, 403 where the token does not allow it.
  func check(_ permission: Permission) throws(Refusal) {
    guard !may(permission) else { return }
    guard name != nil else { throw .unauthorized("this needs a token", error: nil) }
    let scope = permission.scope.rawValue
    guard scopes.contains(permission.scope) else {
      throw Refusal(
        403, "this needs the scope \(scope), which the token does not have",
        fields: ["WWW-Authenticate": "Bearer realm=\"blobcache\", error=\"insufficient_scope\", scope=\"\(scope)\""])
    }
    throw Refusal(403, "the token is for keys with a certain beginning, and this reaches others")
  }
}

extension Refusal {
  /// A request without a token that is known.
  ///
  /// - Parameter error: a code of RFC 6750, 3.1; nil where no token was sent.
  static func unauthorized(_ message: String, error: String?) -> Refusal {
    let reason = error.map { ", error=\"\($0)\"" } ?? ""
    var fields: HeaderFields = ["WWW-Authenticate": "Bearer realm=\"blobcache\"" + reason]
    // Build tools and browsers send the token as a password.
    fields.append("WWW-Authenticate", "Basic realm=\"blobcache\", charset=\"UTF-8\"")
    return Refusal(401, message, fields: fields)
  }
}
