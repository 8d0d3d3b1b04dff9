public import BlobRecord

/// An access key, and the secret that signs requests. No description of it tells a secret.
public struct S3Credentials: Hashable, Sendable {
  /// What the server knows the caller by, which is no secret.
  public var accessKey: String
  /// What signs, and is never sent.
  public var secretKey: String
  /// For keys that were lent for a while; nil for others.
  public var sessionToken: String?
  /// When they end; nil for those that stay. A minute before it, the source is asked for others.
  public var expiry: UnixTime?

  /// - Parameters:
  ///   - accessKey: what the server knows the caller by.
  ///   - secretKey: what signs.
  ///   - sessionToken: for keys that were lent for a while; nil for others.
  ///   - expiry: when they end; nil for those that stay.
  public init(accessKey: String, secretKey: String, sessionToken: String? = nil, expiry: UnixTime? = nil) {
    self.accessKey = accessKey
    self.secretKey = secretKey
    self.sessionToken = sessionToken
    self.expiry = expiry
  }
}

extension S3Credentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  public var description: String { "access key \(accessKey)" }
  public var debugDescription: String { description }
  /// The access key alone.
  public var customMirror: Mirror { Mirror(self, children: ["accessKey": accessKey]) }
}
