internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import Locks

// The viewer: pages that the server renders, with a single script of its own.
extension BlobResponder {
  func view(
    _ route: ViewerRoute, _ request: ServerRequest, _ target: RequestTarget, _ caller: Caller
  ) async throws -> ServerResponse {
    switch route {
    case .overview: return try await overview(target)
    case .records: return try await recordTable(target)
    case .record: return try await recordPage(target, tokenField(for: .change, caller), caller)
    case .payload: return try await payload(target, request)
    case .collections: return try await collectionPage(tokenField(for: .collect, caller))
    case .change: return try await changeRecord(try await form(of: request), caller)
    case .collect: return try await collectByForm(try await form(of: request))
    case .verify: return try await verifyByForm(try await form(of: request))
    case .enter:
      guard let entrance else { throw Refusal(404, "this server is open: there is nothing to enter by") }
      return try entrance.enter(with: target.parameter("token"), isForHeadAlone: request.method == "HEAD")
    case .style: return ViewerAsset.style.response
    case .script: return ViewerAsset.script.response
    case .icon: return ViewerAsset.icon.response
    }
  }

  private func tokenField(for action: ViewerRoute, _ caller: Caller) -> HTML? {
    guard !configuration.isReadOnly, let permission = action.permission, caller.may(permission) else { return nil }
    return viewer.tokenField
  }

  func page(
    _ title: String, _ section: PageFrame.Section? = nil, status: Int = 200, _ content: HTML
  ) -> ServerResponse {
    // The recipient of a refusal may not be permitted to learn anything about this machine.
    let frame = PageFrame(
      title: title, section: section, directory: status < 400 ? cache.directory.string : "",
      isReadOnly: configuration.isReadOnly)
    return ServerResponse(
      status: status, fields: Self.pageFields, body: .text(frame.page(content).text))
  }

  func page(for refusal: Refusal) -> ServerResponse {
    var response = page(
      "\(refusal.status)", status: refusal.status,
      """
      <h1>\(Self.heading(ofStatus: refusal.status))</h1>
      <p class="failure" role="alert">\(refusal.message)</p>
      <p><a class="button" href="./">To the overview</a></p>
      """)
    for field in refusal.fields.all { response.fields.append(field.name, field.value) }
    return response
  }

  static func redirection(to address: String) -> ServerResponse {
    ServerResponse(status: 303, fields: ["Location": address, "Cache-Control": "no-store"])
  }

  private static func heading(ofStatus status: Int) -> String {
    switch status {
    case 403: "This may not be done here"
    case 404: "There is no such thing"
    case 500...: "It could not be done"
    default: "The request was not understood"
    }
  }

  /// Text of a record must not be executed or sent elsewhere, even if it were taken for markup.
  private static var pageFields: HeaderFields {
    [
      "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store",
      "Content-Security-Policy":
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; media-src 'self'; "
        + "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
      "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
    ]
  }
}

final class ViewerState: Sendable {
  let surveys = Surveys()
  let samples = Samples()
  let verification = Verification()
  /// Pages of other sites do not know the token.
  let formToken = RandomToken.make()

  func isFormToken(_ text: String) -> Bool { RandomToken.areEqual(text, formToken) }

  var tokenField: HTML { "<input type=\"hidden\" name=\"\(FormFields.tokenName)\" value=\"\(formToken)\">" }
}
