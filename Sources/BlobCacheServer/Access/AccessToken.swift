internal import BlobRecord
internal import TextFormats

/// A token that callers send, as the server knows it: by its digest.
public struct AccessToken: Hashable, Sendable {
  /// For the log, such as `ci`.
  public let name: String
  /// What a caller who sends the token may do.
  public let scopes: Set<AccessScope>
  /// What the keys begin with that the caller may reach; empty for all.
  public let keyPrefix: String
  /// SHA-256 of the token; nil for what is allowed without one.
  let digest: [UInt8]?

  /// - Parameters:
  ///   - name: for the log; printable ASCII without blanks.
  ///   - secret: what callers send; nil for what those may do who send nothing.
  ///   - scopes: what is allowed.
  ///   - keyPrefix: what the keys begin with that may be reached; empty for all.
  public init(name: String, secret: String?, scopes: Set<AccessScope>, keyPrefix: String = "") {
    self.init(name: name, digest: secret.map(Self.digest), scopes: scopes, keyPrefix: keyPrefix)
  }

  init(name: String, digest: [UInt8]?, scopes: Set<AccessScope>, keyPrefix: String) {
    self.name = name
    self.digest = digest
    self.scopes = scopes
    self.keyPrefix = keyPrefix
  }

  /// A secret that nobody can guess: 256 bits by chance, behind a beginning that tells what it is for.
  public static func makeSecret() -> String {
    var bytes: [UInt8] = []
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<4 { unsafe withUnsafeBytes(of: generator.next()) { unsafe bytes += $0 } }
    return "blobcache_" + Hexadecimal.text(bytes)
  }

  static func digest(_ secret: String) -> [UInt8] {
    let bytes = Array(secret.utf8)
    return SHA256Digest.digest(of: unsafe bytes.span.bytes)
  }
}
