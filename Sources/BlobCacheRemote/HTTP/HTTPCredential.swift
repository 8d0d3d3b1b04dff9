/// How an engine tells an HTTP server who it is.
public enum HTTPCredential: Sendable {
  case none
  /// A user and a password (RFC 7617).
  case basic(user: String, password: Secret)
  /// A token (RFC 6750).
  case bearer(Secret)

  /// The setting that a message names when the server knows the caller not.
  var setting: String {
    switch self {
    case .none: "token-file or password-file, which is not given"
    case .basic: "the user, and password-file"
    case .bearer: "token-file"
    }
  }
}
