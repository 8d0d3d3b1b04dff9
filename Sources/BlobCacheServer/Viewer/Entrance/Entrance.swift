internal import Locks
internal import TextFormats

/// The exchange of a one-time token for a cookie, because other users of the machine can connect to its ports.
final class Entrance: Sendable {
  /// `nil` after its use.
  private let token: Lock<String?>
  /// Browsers send a host's cookies to all its ports. Therefore each server has a unique cookie name.
  private let cookieName = "blobcache-" + RandomToken.make().prefix(8)
  private let secret = RandomToken.make()

  init(token: String) { self.token = Lock(token) }

  func admits(_ request: ServerRequest) -> Bool {
    guard let cookies = request.fields.list("Cookie") else { return false }
    return cookies.split { $0 == ";" || $0 == "," }.contains { cookie in
      let pair = cookie.split(separator: "=", maxSplits: 1)
      return pair.count == 2 && pair[0].trimmingBlanks == cookieName[...]
        && RandomToken.areEqual(String(pair[1].trimmingBlanks), secret)
    }
  }

  /// A HEAD leaves the token valid and gets no cookie, because programs that examine addresses, such as previews of
  /// messages, would otherwise take the place of the browser.
  func enter(with text: String?, isForHeadAlone: Bool) throws(Refusal) -> ServerResponse {
    let isRight = token.withLock { token in
      guard let known = token, let text, RandomToken.areEqual(text, known) else { return false }
      if !isForHeadAlone { token = nil }
      return true
    }
    guard isRight else { throw Self.refusal }
    var response = BlobResponder.redirection(to: "./")
    guard !isForHeadAlone else { return response }
    response.fields.append("Set-Cookie", "\(cookieName)=\(secret); Path=/; HttpOnly; SameSite=Strict")
    // The page's address contains the token.
    response.fields.append("Referrer-Policy", "no-referrer")
    return response
  }

  static let refusal = Refusal(
    403, "this server is for the browser that opened it first; `blobcache view` starts another, and prints its address")
}

/// Random tokens that cannot be guessed.
package enum RandomToken {
  /// Returns 128 bits of the system's randomness in hexadecimal digits.
  package static func make() -> String {
    (0..<2).map { _ in Hexadecimal.text(UInt64.random(in: .min ... .max), digits: 16) }.joined()
  }

  /// Compares two tokens in constant time.
  static func areEqual(_ a: String, _ b: String) -> Bool {
    guard a.utf8.count == b.utf8.count else { return false }
    return zip(a.utf8, b.utf8).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }
}
