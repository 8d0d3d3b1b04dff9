internal import BlobCache
internal import BlobRecord
internal import BlobStore

/// What a form on a record's page does with the record.
enum RecordAction: String, CaseIterable, Sendable {
  case lock, unlock, unlockAll, touch, remove

  /// Of its button.
  var title: String {
    switch self {
    case .lock: "Lock"
    case .unlock: "Unlock"
    case .unlockAll: "Take all locks off"
    case .touch: "Touch"
    case .remove: "Remove"
    }
  }

  /// What is said when it is done.
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
  func changeRecord(_ form: FormFields) async throws -> ServerResponse {
    guard let action = form["action"].flatMap(RecordAction.init(rawValue:)) else {
      throw Refusal(400, "the form names no action")
    }
    guard let text = form["key"], !text.isEmpty else { throw Refusal(400, "the form names no key") }
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
