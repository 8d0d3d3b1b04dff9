internal import Locks

/// Who may ask a server for what: by the tokens that requests bring, and by the users at a Unix socket.
///
/// It may be used from any thread.
public final class AccessControl: Sendable {
  /// nil where everybody may do everything.
  private let tokens: Lock<[AccessToken]?>
  /// The users that are answered at all; nil for any.
  let users: Set<UInt32>?

  /// - Parameters:
  ///   - tokens: what is allowed; nil where everybody may do everything.
  ///   - users: numbers of those whose processes are answered; nil for any. Only a Unix socket tells them.
  public init(tokens: [AccessToken]? = nil, users: Set<UInt32>? = nil) {
    self.tokens = Lock(tokens)
    self.users = users
  }

  /// Goes by other tokens from the next request on.
  ///
  /// - Parameter tokens: in place of all before.
  public func replaceTokens(_ tokens: [AccessToken]) {
    self.tokens.withLock { $0 = tokens }
  }

  /// From whom a request comes.
  ///
  /// - Throws: 401 for an unknown token; 403 for a user without permission.
  /// - Complexity: O(*n*) for *n* tokens, whichever it is.
  func caller(of request: ServerRequest) throws(Refusal) -> Caller {
    if let users {
      guard let user = request.peerUser, users.contains(user) else {
        throw Refusal(403, "this user is not answered here")
      }
    }
    let fields = request.fields
    guard let tokens = tokens.withLock({ $0 }) else { return .anyone }
    guard fields.count(of: "Authorization") > 0 else { return Self.callerWithoutToken(tokens) }
    guard fields.count(of: "Authorization") == 1, let secret = fields["Authorization"].flatMap(Self.secret) else {
      throw .unauthorized("a token is sent as Bearer, or as the password of Basic", error: "invalid_request")
    }
    let digest = AccessToken.digest(secret)
    var found: AccessToken?
    // All are compared, to their ends: how long that takes tells nothing of them.
    for token in tokens where Self.areEqual(token.digest ?? [], digest) { found = token }
    guard let found else { throw .unauthorized("the token is not known", error: "invalid_token") }
    return Caller(name: found.name, scopes: found.scopes, keyPrefix: found.keyPrefix)
  }

  private static func callerWithoutToken(_ tokens: [AccessToken]) -> Caller {
    let token = tokens.first { $0.digest == nil }
    return Caller(name: nil, scopes: token?.scopes ?? [], keyPrefix: token?.keyPrefix ?? "")
  }

  /// The token within the field: RFC 6750, 2.1, or the password of RFC 7617.
  private static func secret(_ value: String) -> String? {
    let parts = value.split(separator: " ", maxSplits: 1)
    guard parts.count == 2 else { return nil }
    let credentials = parts[1].trimmingBlanks
    switch parts[0].lowercased() {
    case "bearer": return String(credentials)
    case "basic":
      guard let bytes = Data(base64Encoded: String(credentials)), let text = String(validating: bytes, as: UTF8.self),
        let colon = text.firstIndex(of: ":")
      else { return nil }
      return String(text[text.index(after: colon)...])
    default: return nil
    }
  }

  private static func areEqual(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    guard a.count == b.count else { return false }
    var difference: UInt8 = 0
    for (x, y) in zip(a, b) { difference |= x ^ y }
    return difference == 0
  }
}

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
