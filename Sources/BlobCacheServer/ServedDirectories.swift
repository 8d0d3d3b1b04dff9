internal import BlobRecord

/// What a server serves: one directory, or many, each behind its name at the beginning of the path.
///
/// `/healthz` and `/readyz` are for all of them together. Tokens hold for all, and the beginnings of keys that they allow are
/// of a name, a slash and a key.
public struct ServedDirectories: Sendable {
  /// nil for one directory without a name.
  private let named: [String: BlobResponder]?
  /// The one, or any of many: all have one access control and one clock.
  let first: BlobResponder

  /// One directory, whose routes begin at `/`.
  public init(_ responder: BlobResponder) {
    named = nil
    first = responder
  }

  /// Many directories; what bodies may take while they arrive is what the first one allows, for all together.
  ///
  /// - Parameter responders: by their names, of which each is fit by `isName`.
  /// - Precondition: there is one at least.
  public init(_ responders: [(name: String, responder: BlobResponder)]) {
    first = responders[0].responder
    var named: [String: BlobResponder] = [:]
    for (name, responder) in responders {
      var responder = responder
      responder.place = name + "/"
      responder.bodies = first.bodies
      named[name] = responder
    }
    self.named = named
  }

  /// Whether a directory can have a name: letters of ASCII, digits, `-`, `_` and dots, and no path of the whole server.
  public static func isName(_ text: some StringProtocol) -> Bool {
    !text.isEmpty && !text.utf8.allSatisfy { $0 == UInt8(ascii: ".") } && !["healthz", "readyz"].contains(String(text))
      && text.utf8.allSatisfy { byte in
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
          UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
          true
        default: false
        }
      }
  }

  /// The answer to a request, as `BlobResponder.respond`.
  public func respond(to request: ServerRequest) async -> ServerResponse {
    guard let named else { return await first.respond(to: request) }
    let path = request.target.prefix { $0 != "?" }
    if path == "/healthz" { return await first.respond(to: request) }
    if path == "/readyz" { return await readiness(request, named) }
    let rest = path.dropFirst()
    let name = rest.prefix { $0 != "/" }
    guard path.hasPrefix("/"), name.endIndex != rest.endIndex, let responder = named[String(name)] else {
      let refusal = Refusal(404, "a path begins with a slash, the name of a directory, and another slash").response
      return request.method == "HEAD" ? refusal.withoutBody : refusal
    }
    var request = request
    request.target = String(request.target[name.endIndex...])
    return await responder.respond(to: request)
  }

  /// Ready if each is.
  private func readiness(_ request: ServerRequest, _ named: [String: BlobResponder]) async -> ServerResponse {
    for (_, responder) in named.sorted(by: { $0.key < $1.key }) {
      let response = await responder.respond(to: request)
      guard response.status < 400 else { return response }
    }
    return await first.respond(to: request)
  }
}
