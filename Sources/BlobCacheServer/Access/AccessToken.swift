internal import BlobRecord
internal import TextFormats

/// A token of a caller, which the server stores as a digest.
public struct AccessToken: Hashable, Sendable {
  /// The name for the log, such as `ci`.
  public let name: String
  /// The scopes that the token grants.
  public let scopes: Set<AccessScope>
  /// The prefix of the keys that the token grants access to. An empty prefix grants access to all keys.
  public let keyPrefix: String
  /// `nil` for the permissions of requests without a token.
  let digest: [UInt8]?

  /// Creates a token.
  ///
  /// - Parameters:
  ///   - name: The name for the log, in printable ASCII without spaces.
  ///   - secret: The text that callers send, or `nil` for the permissions of requests without a token.
  ///   - scopes: The scopes that the token grants.
  ///   - keyPrefix: The prefix of the accessible keys, or an empty string for all keys.
  public init(name: String, secret: String?, scopes: Set<AccessScope>, keyPrefix: String = "") {
    self.init(name: name, digest: secret.map(Self.digest), scopes: scopes, keyPrefix: keyPrefix)
  }

  init(name: String, digest: [UInt8]?, scopes: Set<AccessScope>, keyPrefix: String) {
    self.name = name
    self.digest = digest
    self.scopes = scopes
    self.keyPrefix = keyPrefix
  }

  /// Returns a new secret with 256 random bits, after a prefix that names its purpose.
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

extension AccessToken {
  private static let digestName = "sha256:"
  private static let noDigest = "-"

  /// The token's line in a token file: name, digest, scopes, and the escaped key prefix.
  public var line: String {
    let digest = digest.map { Self.digestName + Hexadecimal.text($0) } ?? Self.noDigest
    let scopes = scopes.sorted().map(\.rawValue).joined(separator: ",")
    let prefix = keyPrefix.isEmpty ? "" : " " + Self.escaped(keyPrefix)
    return "\(name) \(digest) \(scopes)\(prefix)"
  }

  init(line: Substring) throws(TokenLineError) {
    let parts = line.split { $0 == " " || $0 == "\t" }
    guard (3...4).contains(parts.count) else {
      throw TokenLineError("a line has a name, a digest, scopes, and at most the beginning of keys")
    }
    guard Self.isName(parts[0]) else { throw TokenLineError("a name has printable letters of ASCII") }
    let digest = try Self.digest(ofField: parts[1])
    guard let scopes = AccessScope.set(parts[2]) else {
      throw TokenLineError("scopes are of read, write, pin and admin, with commas between them")
    }
    var prefix = ""
    if parts.count == 4 {
      guard let decoded = try? RequestTarget.decoded(parts[3]) else {
        throw TokenLineError("the beginning of keys has a wrong escape")
      }
      prefix = decoded
    }
    self.init(name: String(parts[0]), digest: digest, scopes: scopes, keyPrefix: prefix)
  }

  private static func digest(ofField text: Substring) throws(TokenLineError) -> [UInt8]? {
    if text == noDigest { return nil }
    guard text.hasPrefix(digestName), let digest = Hexadecimal.bytes(text.dropFirst(digestName.count)),
      digest.count == SHA256Digest.byteCount
    else {
      throw TokenLineError("a digest is \(digestName) and \(2 * SHA256Digest.byteCount) hexadecimal digits")
    }
    return digest
  }

  /// Returns a Boolean value that indicates whether the text is a valid token name.
  public static func isName(_ text: some StringProtocol) -> Bool {
    // A line with a leading `#` is a comment.
    text.first != "#" && !text.isEmpty && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
  }

  private static func escaped(_ text: String) -> String {
    var escaped = ""
    for byte in text.utf8 {
      if (0x21...0x7E).contains(byte), byte != UInt8(ascii: "%") {
        escaped.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        escaped += "%" + Hexadecimal.text([byte])
      }
    }
    return escaped
  }
}

struct TokenLineError: Error {
  let message: String

  init(_ message: String) { self.message = message }
}
