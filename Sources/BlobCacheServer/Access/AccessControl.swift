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
