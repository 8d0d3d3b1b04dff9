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

extension AccessToken {
  private static let digestName = "sha256:"
  /// In place of a digest: for requests without a token.
  private static let noDigest = "-"

  /// The token's line in a token file: name, digest, scopes, and the beginning of keys with its escapes.
  public var line: String {
    let digest = digest.map { Self.digestName + Hexadecimal.text($0) } ?? Self.noDigest
    let scopes = scopes.sorted().map(\.rawValue).joined(separator: ",")
    let prefix = keyPrefix.isEmpty ? "" : " " + Self.escaped(keyPrefix)
    return "\(name) \(digest) \(scopes)\(prefix)"
  }

  /// - Throws: what is wrong with the line.
  init(line: Substring) throws(TokenLineError) {
    let parts = line.split { $0 == " " || $0 == "\t" }
    guard (3...4).contains(parts.count) else {
      throw TokenLineError("a line has a name, a digest, scopes, and at most the beginning of keys")
    }
    guard Self.isName(parts[0]) else { throw TokenLineError("a name has printable letters of ASCII") }
    let digest = try Self.digest(ofField: parts[1])
    guard let scopes = AccessScope.set(parts[2]) else {
      throw TokenLineError("scopes are of read, write and admin, with commas between them")
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

  /// Whether a text can be the name of a token.
  public static func isName(_ text: some StringProtocol) -> Bool {
    // A line that begins with this is a comment.
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

/// What is wrong with a line of a token file.
struct TokenLineError: Error {
  let message: String

  init(_ message: String) { self.message = message }
}
