/// The answer to a request, for whatever transport.
///
/// The transport adds what belongs to the connection: `Date`, `Content-Length` by the body, `Connection`.
public struct ServerResponse: Sendable {
  public var status: Int
  public var fields: HeaderFields
  public var body: MessageBody

  public init(status: Int, fields: HeaderFields = [:], body: MessageBody = .none) {
    self.status = status
    self.fields = fields
    self.body = body
  }
}

extension ServerResponse {
  /// An answer in a line of text.
  static func line(_ status: Int, _ text: String) -> ServerResponse {
    ServerResponse(
      status: status,
      fields: ["Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-store"], body: .text(text + "\n"))
  }

  /// The answer to HEAD: the fields of the one to GET.
  var withoutBody: ServerResponse {
    var response = self
    response.body = .omitted(byteCount: body.byteCount)
    return response
  }
}
