internal import Locks
internal import TextFormats

/// The way into a server that was started for one browser.
///
/// A token that works once is exchanged for a cookie, which every request needs from then on: other users of the machine
/// reach its ports, too.
final class Entrance: Sendable {
  /// nil once it was used.
  private let token: Lock<String?>
  /// Browsers send the cookies of a host to all its ports, so each server's has a name of its own.
  private let cookieName = "blobcache-" + RandomToken.make().prefix(8)
  private let secret = RandomToken.make()

  init(token: String) { self.token = Lock(token) }

  /// Whether a request has the cookie.
  func admits(_ request: ServerRequest) -> Bool {
    guard let cookies = request.fields.list("Cookie") else { return false }
    return cookies.split { $0 == ";" || $0 == "," }.contains { cookie in
      let pair = cookie.split(separator: "=", maxSplits: 1)
      return pair.count == 2 && pair[0].trimmingBlanks == cookieName[...]
        && RandomToken.areEqual(String(pair[1].trimmingBlanks), secret)
    }
  }

  /// Exchanges the token for the cookie.
  ///
  /// - Throws: 403 if it is not the token, or was used before.
  func enter(with text: String?) throws(Refusal) -> ServerResponse {
    let isRight = token.withLock { token in
      guard let known = token, let text, RandomToken.areEqual(text, known) else { return false }
      token = nil
      return true
    }
    guard isRight else { throw Self.refusal }
    var response = BlobResponder.redirection(to: "./")
    response.fields.append("Set-Cookie", "\(cookieName)=\(secret); Path=/; HttpOnly; SameSite=Strict")
    // The address has the token.
    response.fields.append("Referrer-Policy", "no-referrer")
    return response
  }

  static let refusal = Refusal(
    403, "this server is for the browser that opened it first; `blobcache view` starts another, and prints its address")
}

/// Texts that nobody can guess.
package enum RandomToken {
  /// 128 bits of the system's randomness, in hexadecimal digits.
  package static func make() -> String {
    (0..<2).map { _ in Hexadecimal.text(UInt64.random(in: .min ... .max), digits: 16) }.joined()
  }

  /// Compares in a time that tells nothing of where the texts differ.
  static func areEqual(_ a: String, _ b: String) -> Bool {
    guard a.utf8.count == b.utf8.count else { return false }
    return zip(a.utf8, b.utf8).reduce(0) { $0 | ($1.0 ^ $1.1) } == 0
  }
}
