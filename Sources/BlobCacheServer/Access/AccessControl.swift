internal import Locks

/// The access control of a server, by the tokens in requests and the users of a Unix socket's clients.
///
/// Instances can be used from any thread.
public final class AccessControl: Sendable {
  private let tokens: Lock<[AccessToken]?>
  let users: Set<UInt32>?

  /// Creates an access control.
  ///
  /// - Parameters:
  ///   - tokens: The tokens that grant permissions, or `nil` to allow every request.
  ///   - users: The IDs of the users whose processes are answered, or `nil` for all. Only a Unix socket reports them.
  public init(tokens: [AccessToken]? = nil, users: Set<UInt32>? = nil) {
    self.tokens = Lock(tokens)
    self.users = users
  }

  /// A Boolean value that indicates whether responses can depend on the caller.
  var identifiesCallers: Bool { users != nil || tokens.withLock { $0 != nil } }

  /// Replaces the tokens, from the next request on.
  ///
  /// - Parameter tokens: The new tokens, which replace all earlier ones.
  public func replaceTokens(_ tokens: [AccessToken]) {
    self.tokens.withLock { $0 = tokens }
  }

  /// - Throws: 401 for an unknown token; 403 for a user without permission.
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
    // Every token is compared in full, so that the time taken reveals nothing about them.
    for token in tokens where Self.areEqual(token.digest ?? [], digest) { found = token }
    guard let found else { throw .unauthorized("the token is not known", error: "invalid_token") }
    return Caller(name: found.name, scopes: found.scopes, keyPrefix: found.keyPrefix)
  }

  private static func callerWithoutToken(_ tokens: [AccessToken]) -> Caller {
    let token = tokens.first { $0.digest == nil }
    return Caller(name: nil, scopes: token?.scopes ?? [], keyPrefix: token?.keyPrefix ?? "")
  }

  /// Returns the token of a bearer field (RFC 6750, 2.1), or the password of a basic field (RFC 7617).
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

/// A class of requests that a caller may make.
public enum AccessScope: String, CaseIterable, Comparable, Sendable {
  /// Requests that read blobs, records, lists and statistics.
  case read
  /// Requests that store, remove or touch blobs.
  case write
  /// Requests that lock or unlock blobs, or store them without an end, and so keep them from expiry and eviction.
  ///
  /// It is separate because a writer could otherwise fill the directory with blobs that no collection may remove.
  case pin
  /// Requests that concern the whole directory, such as a collection.
  case admin

  /// Parses a list of scopes such as `read,write`.
  ///
  /// - Returns: The scopes, or `nil` if the text has another form.
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
    case .pin: 2
    case .admin: 3
    }
  }
}

struct Permission: Equatable {
  let scope: AccessScope
  let reach: Reach

  enum Reach: Equatable {
    case key(String)
    /// All keys with a prefix, compared byte by byte.
    case prefix(String)
    case directory
  }

  func isWithin(_ prefix: String, at place: String) -> Bool {
    let reached =
      switch reach {
      case .key(let text), .prefix(let text): place + text
      case .directory: place
      }
    // Bytes are compared, because two strings that Swift considers equal can be different keys.
    return reached.utf8.starts(with: prefix.utf8)
  }
}

struct Caller: Sendable {
  let name: String?
  let scopes: Set<AccessScope>
  let keyPrefix: String
  /// The name of the directory and a slash, which precede keys and the prefix if the server has several directories.
  var place = ""

  static let anyone = Caller(name: nil, scopes: Set(AccessScope.allCases), keyPrefix: "")

  func may(_ permission: Permission) -> Bool {
    scopes.contains(permission.scope) && permission.isWithin(keyPrefix, at: place)
  }

  /// - Throws: 401 if a token is missing; 403 if the token does not permit the request.
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
  /// - Parameter error: A code of RFC 6750, 3.1, or `nil` if no token was sent.
  static func unauthorized(_ message: String, error: String?) -> Refusal {
    let reason = error.map { ", error=\"\($0)\"" } ?? ""
    var fields: HeaderFields = ["WWW-Authenticate": "Bearer realm=\"blobcache\"" + reason]
    // Build tools and browsers send the token as a password.
    fields.append("WWW-Authenticate", "Basic realm=\"blobcache\", charset=\"UTF-8\"")
    return Refusal(401, message, fields: fields)
  }
}
