extension Refusal {
  /// The refusal in JSON: as Turborepo's API describes it, and within `error`, where the client looks.
  var turboResponse: ServerResponse {
    let message = TurboError.Message(code: code, message: message)
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    // Two texts are always encoded.
    let text = try? encoder.encode(TurboError(code: code, message: self.message, error: message))
    var response = ServerResponse.json(text.map { String(decoding: $0, as: UTF8.self) } ?? "{}", status: status)
    for field in fields.all { response.fields.append(field.name, field.value) }
    return response
  }

  private var code: String {
    switch status {
    case 400: "bad_request"
    case 401: "unauthorized"
    case 403: "forbidden"
    case 404: "not_found"
    default: "failed"
    }
  }

  private struct TurboError: Encodable {
    let code: String
    let message: String
    let error: Message

    struct Message: Encodable {
      let code: String
      let message: String
    }
  }
}
