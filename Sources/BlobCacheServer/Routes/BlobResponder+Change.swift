internal import BlobCache
internal import BlobRecord
internal import BlobStore

extension BlobResponder {
  func remove(_ key: BlobKey, _ request: ServerRequest) async throws -> ServerResponse {
    let preconditions = try Preconditions(request.fields)
    let change = JudgedChange(preconditions)
    let removal =
      preconditions.areAbsent ? try await cache.remove(key) : try await cache.remove(key, if: change.allows)
    if let removal {
      let isMeant = removal == .done || preconditions.allowChange(of: nil)
      let there = isMeant ? await cache.remoteSettled(key) : nil
      return try Self.response(to: removal, fields: there.map { ["X-BlobCache-Remote": $0.rawValue] } ?? [:])
    }
    // Conditions are for what would be granted without them (RFC 9110, 13.2.1).
    throw change.hasFound ? change.refusal : Refusal(404, "there is no such blob")
  }

  /// `?touch`, `?lock`, `?unlock`, or `?unlock&force` for all locks.
  func change(_ key: BlobKey, _ target: RequestTarget) async throws -> ServerResponse {
    let names = target.query.map(\.name)
    let outcome =
      switch names {
      case ["touch"]: try await cache.touch(key)
      case ["lock"]: try await cache.lock(key)
      case ["unlock"]: try await cache.unlock(key)
      case ["unlock", "force"], ["force", "unlock"]: try await cache.unlock(key, force: true)
      default: throw Refusal(400, "a POST is one of ?touch, ?lock, ?unlock and ?unlock&force")
      }
    return try Self.response(to: outcome)
  }

  private static func response(
    to outcome: BlobStore.Outcome, fields: HeaderFields = [:]
  ) throws(Refusal) -> ServerResponse {
    switch outcome {
    case .done: return ServerResponse(status: 204, fields: fields)
    case .notFound: throw Refusal(404, "there is no such blob", fields: fields)
    case .notLocked: throw Refusal(409, "the blob has no lock")
    }
  }
}
