#if Remote
  extension HTTPEngine {
    /// The settings of an HTTP engine.
    public struct Settings: Sendable {
      /// The URL that is the prefix of all objects.
      public var endpoint: HTTPEndpoint
      /// The form of object names in requests.
      public var names = HTTPNames.path
      /// The credential of the engine.
      public var credential = HTTPCredential.none
      /// The certificates for `https`.
      public var security = TransportSecurity()
      /// A Boolean value that indicates whether data and secrets may be sent unencrypted to other machines.
      public var allowsPlainHTTP = false
      /// The maximum number of open connections. Further requests wait for one of them.
      public var connections = 32
      /// The timeout for a new connection, and for the wait for a free one.
      public var connectTime: Duration = .seconds(5)

      /// Creates settings with default values.
      ///
      /// - Parameter endpoint: The prefix URL of all objects. The path suffix `/v1/blobs` means `blobcache serve`.
      public init(_ endpoint: HTTPEndpoint) { self.endpoint = endpoint }
    }
  }

  extension HTTPEngine.Settings {
    var isBlobCache: Bool { endpoint.path.hasSuffix("/v1/blobs") }

    func check() throws(RemoteSettingError) {
      try endpoint.check(allowsPlainHTTP: allowsPlainHTTP)
      guard names == .sha256 else { return }
      guard !isBlobCache else {
        throw RemoteSettingError("names", "blobcache serve takes all names, and lists them; leave out names=sha256")
      }
      guard !endpoint.path.hasSuffix("/cas") else {
        throw RemoteSettingError(
          "names", "below /cas, a server takes what has the SHA-256 of its name alone; use /ac in the endpoint")
      }
    }
  }
#endif

/// The credential of an engine for an HTTP server.
public enum HTTPCredential: Sendable {
  case none
  /// A user and a password (RFC 7617).
  case basic(user: String, password: Secret)
  /// A token (RFC 6750).
  case bearer(Secret)

  var setting: String {
    switch self {
    case .none: "token-file or password-file, which is not given"
    case .basic: "the user, and password-file"
    case .bearer: "token-file"
    }
  }
}

/// The form of object names in requests to an HTTP server.
public enum HTTPNames: String, CaseIterable, Hashable, Sendable {
  /// A path with percent-encoded components.
  case path
  /// The SHA-256 of the name in 64 hexadecimal digits, for servers such as bazel-remote below `/ac`.
  ///
  /// The names cannot be listed, because keys cannot be derived from digests.
  case sha256
}
