#if Remote
  extension HTTPEngine {
    /// Where an HTTP server is, and how it is spoken to.
    public struct Settings: Sendable {
      /// The URL that names are added to.
      public var endpoint: HTTPEndpoint
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
#endif
