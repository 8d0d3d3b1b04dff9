#if Remote
  extension HTTPEngine {
    /// Where an HTTP server is, and how it is spoken to.
    public struct Settings: Sendable {
      /// The URL that names are added to.
      public var endpoint: HTTPEndpoint
      /// How the server is told an object's name.
      public var names = HTTPNames.path
      /// Who the engine is.
      public var credential = HTTPCredential.none
      /// Certificates; for `https` alone.
      public var security = TransportSecurity()
      /// Whether bytes and secrets may cross a network in plain text. To this machine itself they always may.
      public var allowsPlainHTTP = false
      /// How many connections are open at once, at the most. More requests wait for one.
      public var connections = 32
      /// How long a connection may take to be made, or a request to get one.
      public var connectTime: Duration = .seconds(5)

      /// - Parameter endpoint: the URL that names are added to. Below `/v1/blobs` it is taken for `blobcache serve`.
      public init(_ endpoint: HTTPEndpoint) { self.endpoint = endpoint }
    }
  }

  extension HTTPEngine.Settings {
    /// Whether the server is `blobcache serve`, by its path.
    var isBlobCache: Bool { endpoint.path.hasSuffix("/v1/blobs") }

    /// - Throws: `RemoteSettingError` for plain HTTP to another machine, and for names that the server would not take.
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

/// How an HTTP server is told the name of an object.
public enum HTTPNames: String, CaseIterable, Hashable, Sendable {
  /// As a path, each part escaped.
  case path
  /// As the SHA-256 of the name in 64 hexadecimal digits, for servers that take no other: bazel-remote below `/ac`.
  ///
  /// Such names tell no keys, so nothing is listed.
  case sha256
}
