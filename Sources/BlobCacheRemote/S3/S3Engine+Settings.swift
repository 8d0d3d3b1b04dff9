internal import TextFormats

#if Remote
  internal import BlobRecord

  extension S3Engine {
    /// The settings of an S3 engine.
    public struct Settings: Sendable {
      public var bucket: String
      /// The URL of the server, or `nil` for Amazon's endpoint of the region.
      public var endpoint: HTTPEndpoint?
      /// The region in signatures. Many servers accept any region.
      public var region = "us-east-1"
      /// The position of the bucket in URLs, or `nil` for the host at Amazon and the path elsewhere.
      public var style: Style?
      public var credentials: any S3CredentialSource
      /// The certificates for `https`.
      public var security = TransportSecurity()
      /// A Boolean value that indicates whether uploads state the CRC-32 of their bytes, which some servers refuse.
      ///
      /// Without it, nothing checks the bytes of an unencrypted stream on its way. A load checks each record anyway.
      public var sendsChecksums = true
      /// A Boolean value that indicates whether data may be sent unencrypted to other machines.
      public var allowsPlainHTTP = false
      /// The maximum number of open connections. Further requests wait for one of them.
      public var connections = 32
      /// The timeout for a new connection, and for the wait for a free one.
      public var connectTime: Duration = .seconds(5)
      var now: @Sendable () -> UnixTime = { UnixTime(seconds: Int64(Date().timeIntervalSince1970)) }

      /// Creates settings with default values.
      ///
      /// - Parameters:
      ///   - bucket: The name of an existing bucket.
      ///   - credentials: The source of credentials, by default the environment and then the shared file.
      public init(bucket: String, credentials: any S3CredentialSource = .standard) {
        self.bucket = bucket
        self.credentials = credentials
      }
    }

    /// The position of the bucket in URLs.
    public enum Style: String, Hashable, Sendable, CaseIterable {
      /// `https://endpoint/bucket/name`
      case path
      /// `https://bucket.endpoint/name`
      case host
    }
  }

  extension S3Engine.Settings {
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
      // A certificate for *.host does not cover names with an additional dot.
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
  /// Returns a path with the minimum of escapes, as signatures require. An escaped slash remains escaped.
  static func canonical(_ path: String) -> String {
    path.split(separator: "/", omittingEmptySubsequences: false).map { part in
      decoded(part).map { encoded($0) } ?? String(part)
    }.joined(separator: "/")
  }
}
