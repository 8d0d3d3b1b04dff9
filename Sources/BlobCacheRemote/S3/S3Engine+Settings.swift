internal import TextFormats

#if Remote
  internal import BlobRecord

  extension S3Engine {
    /// Which bucket, where, and by whom.
    public struct Settings: Sendable {
      public var bucket: String
      /// Where the server is; nil for Amazon's of the region.
      public var endpoint: HTTPEndpoint?
      /// What requests are signed for. Many servers take any.
      public var region = "us-east-1"
      /// Where in a URL the bucket stands; nil for the host at Amazon, and the path elsewhere.
      public var style: Style?
      public var credentials: any S3CredentialSource
      /// Certificates; for `https` alone.
      public var security = TransportSecurity()
      /// Whether bytes may cross a network in plain text. To this machine itself they always may.
      public var allowsPlainHTTP = false
      /// How many connections are open at once, at the most. More requests wait for one.
      public var connections = 32
      /// How long a connection may take to be made, or a request to get one.
      public var connectTime: Duration = .seconds(5)
      /// The clock; for tests.
      var now: @Sendable () -> UnixTime = { UnixTime(seconds: Int64(Date().timeIntervalSince1970)) }

      /// - Parameters:
      ///   - bucket: its name. It must be there.
      ///   - credentials: the environment's, else those of the shared file, if nothing is said.
      public init(bucket: String, credentials: any S3CredentialSource = .standard) {
        self.bucket = bucket
        self.credentials = credentials
      }
    }

    /// Where in a URL the bucket stands.
    public enum Style: String, Hashable, Sendable, CaseIterable {
      /// `https://endpoint/bucket/name`
      case path
      /// `https://bucket.endpoint/name`
      case host
    }
  }

  extension S3Engine.Settings {
    /// What names are added to: an endpoint with the bucket in its host or its path.
    ///
    /// - Throws: `RemoteSettingError` for a bucket or region of other characters, or a style that does not fit.
    func place() throws(RemoteSettingError) -> HTTPEndpoint {
      func isPlain(_ text: String) -> Bool {
        !text.isEmpty && text.utf8.allSatisfy { PercentEncoding.isLetterOrDigit($0) || "-._".utf8.contains($0) }
          && !text.hasPrefix(".") && !text.hasSuffix(".") && !text.contains("..")
      }
      guard isPlain(bucket) else {
        throw RemoteSettingError("bucket", "it is no name of a bucket: letters and digits, -, . and _")
      }
      guard isPlain(region) else {
        throw RemoteSettingError("region", "\"\(region)\" is no region, such as us-east-1")
      }
      // A certificate for *.host covers no name with another dot.
      let style = style ?? (endpoint == nil && !bucket.contains(".") ? .host : .path)
      let server: HTTPEndpoint
      if let endpoint {
        server = endpoint
      } else {
        let suffix = region.hasPrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com"
        server = HTTPEndpoint(isEncrypted: true, host: "s3.\(region).\(suffix)", port: 443, path: "")
      }
      try server.check(allowsPlainHTTP: allowsPlainHTTP)
      let path = PercentEncoding.canonical(server.path)
      if style == .path {
        return HTTPEndpoint(
          isEncrypted: server.isEncrypted, host: server.host, port: server.port, path: "\(path)/\(bucket)")
      }
      guard !server.host.contains(":"), UInt8(server.host.split(separator: ".").last ?? "") == nil else {
        throw RemoteSettingError(
          "style", "host needs a name in the endpoint, and \(server.host) is an address; use path")
      }
      return HTTPEndpoint(
        isEncrypted: server.isEncrypted, host: "\(bucket).\(server.host)", port: server.port, path: path)
    }
  }
#endif

extension PercentEncoding {
  /// A path in the one form that servers sign: each byte is escaped that must be, and no other.
  ///
  /// - Parameter path: with right escapes. An escaped slash stays one.
  static func canonical(_ path: String) -> String {
    path.split(separator: "/", omittingEmptySubsequences: false).map { part in
      decoded(part).map { encoded($0) } ?? String(part)
    }.joined(separator: "/")
  }
}
