internal import BlobRecord

/// The directories of a server: one directory, or several with a name as the first component of the path.
///
/// `/healthz`, `/readyz` and tokens apply to all directories. Key prefixes of tokens begin with a name and a slash.
public struct ServedDirectories: Sendable {
  private let named: [String: BlobResponder]?
  /// Any of the directories, because all share the access control and the clock.
  let first: BlobResponder

  /// Creates a server of one directory, whose routes begin at `/`.
  public init(_ responder: BlobResponder) {
    named = nil
    first = responder
  }

  /// Creates a server of several directories, which share the body budgets of the first one.
  ///
  /// - Parameter responders: The responders with their names, which satisfy `isName`.
  /// - Precondition: `responders` is not empty.
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

  /// Returns a Boolean value that indicates whether a text is a valid name of a directory: ASCII letters, digits, `-`,
  /// `_` and dots, except for dots only and paths of the server itself.
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

  /// Returns the response to a request, like `BlobResponder.respond`.
  public func respond(to request: ServerRequest) async -> ServerResponse {
    guard let named else { return await first.respond(to: request) }
    var request = request.inOriginForm
    // Asks about the server as a whole.
    guard request.target != "*" else { return await first.respond(to: request) }
    let path = request.target.prefix { $0 != "?" }
    if path == "/healthz" { return await first.respond(to: request) }
    if path == "/readyz" { return await readiness(request, named) }
    let rest = path.dropFirst()
    let name = rest.prefix { $0 != "/" }
    guard path.hasPrefix("/"), name.endIndex != rest.endIndex, let responder = named[String(name)] else {
      let refusal = Refusal(404, "a path begins with a slash, the name of a directory, and another slash").response
      return request.method == "HEAD" ? refusal.withoutBody : refusal
    }
    request.target = String(request.target[name.endIndex...])
    return await responder.respond(to: request)
  }

  private func readiness(_ request: ServerRequest, _ named: [String: BlobResponder]) async -> ServerResponse {
    for (_, responder) in named.sorted(by: { $0.key < $1.key }) {
      let response = await responder.respond(to: request)
      guard response.status < 400 else { return response }
    }
    return await first.respond(to: request)
  }
}
