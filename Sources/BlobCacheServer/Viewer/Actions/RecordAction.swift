internal import BlobCache
internal import BlobRecord
internal import BlobStore

enum RecordAction: String, CaseIterable, Sendable {
  case lock, unlock, unlockAll, touch, remove

  var title: String {
    switch self {
    case .lock: "Lock"
    case .unlock: "Unlock"
    case .unlockAll: "Take all locks off"
    case .touch: "Touch"
    case .remove: "Remove"
    }
  }

  /// A Boolean value that indicates whether the action requires the scope `pin`.
  var pins: Bool { [.lock, .unlock, .unlockAll].contains(self) }

  var past: String {
    switch self {
    case .lock: "The record was locked"
    case .unlock: "A lock was taken off"
    case .unlockAll: "All locks were taken off"
    case .touch: "The record was touched: its time begins anew"
    case .remove: "The record was removed"
    }
  }
}

extension BlobResponder {
  func changeRecord(_ form: FormFields, _ caller: Caller) async throws -> ServerResponse {
    guard let action = form["action"].flatMap(RecordAction.init(rawValue:)) else {
      throw Refusal(400, "the form names no action")
    }
    guard let text = form["key"], !text.isEmpty else { throw Refusal(400, "the form names no key") }
    if action.pins { try caller.check(Permission(scope: .pin, reach: .key(text))) }
    let key = BlobKey(text)
    let outcome =
      switch action {
      case .lock: try await cache.lock(key)
      case .unlock: try await cache.unlock(key)
      case .unlockAll: try await cache.unlock(key, force: true)
      case .touch: try await cache.touch(key)
      case .remove: try await cache.remove(key)
      }
    switch outcome {
    case .done: break
    case .notFound: throw Refusal(404, "there is no such blob any more")
    case .notLocked: throw Refusal(409, "the blob has no lock any more")
    }
    let page = action == .remove ? ViewerLink(.records) : ViewerLink(.record).with("key", text)
    return Self.redirection(to: page.with("done", action.rawValue).text)
  }
}

struct FormFields {
  private let fields: [(name: String, value: String)]

  /// The limit allows a key of maximum length with every byte escaped.
  static let largestByteCount = 3 * RecordExtension.maximumKeyByteCount + (8 << 10)
  static let tokenName = "token"

  init(_ text: String) throws(Refusal) {
    var fields: [(name: String, value: String)] = []
    for part in text.split(separator: "&") {
      let pair = part.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      fields.append((try Self.decoded(pair[0]), pair.count > 1 ? try Self.decoded(pair[1]) : ""))
    }
    self.fields = fields
  }

  subscript(name: String) -> String? { fields.first { $0.name == name }?.value }

  private static func decoded(_ text: Substring) throws(Refusal) -> String {
    let spaced = text.replacing("+", with: " ")
    return try RequestTarget.decoded(spaced[...])
  }
}

extension BlobResponder {
  /// - Throws: 403 for a form of another origin; 413 and 415 if the body is not a form.
  func form(of request: ServerRequest) async throws -> FormFields {
    guard let type = request.fields["Content-Type"].flatMap({ MediaType($0) }), type.isForm else {
      throw Refusal(415, "this takes a form of a page of the viewer")
    }
    var body = Data()
    switch request.body {
    case .none, .omitted, .file: break
    case .bytes(let data): body = data
    case .stream(_, let pieces):
      for try await piece in pieces {
        guard body.count + piece.count <= FormFields.largestByteCount else { throw Self.tooLargeForm }
        body.append(piece)
      }
    }
    guard body.count <= FormFields.largestByteCount else { throw Self.tooLargeForm }
    guard let text = String(validating: body, as: UTF8.self) else { throw Refusal(400, "the form is not UTF-8") }
    let fields = try FormFields(text)
    // A page of another site can send a form, but cannot read the token.
    guard let token = fields[FormFields.tokenName], viewer.isFormToken(token) else {
      throw Refusal(403, "the form is not one of this server's since its start: load its page anew and try again")
    }
    return fields
  }

  private static var tooLargeForm: Refusal {
    Refusal(413, "the form has more than \(FormFields.largestByteCount) bytes")
  }
}
