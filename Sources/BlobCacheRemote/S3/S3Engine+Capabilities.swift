#if Remote
  public import BlobCache
  internal import Locks

  extension S3Engine {
    /// Puts an object with conditions that do not hold, and looks whether it is refused. Conditions are used from then on
    /// where it was.
    public func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities {
      _ = try await list(prefix, page: nil)
      return try await look(under: prefix)
    }

    /// A look that lists nothing.
    func look(under prefix: RemoteName) async throws -> RemoteCapabilities {
      var found = RemoteCapabilities()
      (found.lists, found.streams, found.largestObject) = (true, true, largestObject)
      found.removes = try await withProbe(under: prefix) { object in try await probe(object, &found) }
      found.leases = found.conditionalPut
      didSee(found)
      return found
    }

    func didSee(_ capabilities: RemoteCapabilities) { seen.withLock { $0 = capabilities } }

    private func probe(_ object: RemoteName, _ found: inout RemoteCapabilities) async throws {
      let bytes = ProbeObject.bytes
      let none = [(name: "if-none-match", value: "*")]
      let first = try await put(bytes, as: object, none)
      if first == .unsupported {
        found.notes.append("PUT with If-None-Match is not supported.")
        guard case .done = try await put(bytes, as: object, []) else {
          throw RemoteError(.unsupported, "\(name): PUT is not supported; look at the endpoint")
        }
      } else if case .refused = try await put(bytes, as: object, none) {
        found.conditionalPut = true
      } else {
        found.notes.append("PUT does not heed If-None-Match.")
      }
      switch try await put(bytes, as: object, [("if-match", "\"00000000000000000000000000000000\"")]) {
      case .refused: found.conditionalReplace = true
      case .unsupported: found.notes.append("PUT with If-Match is not supported.")
      case .done: found.notes.append("PUT does not heed If-Match.")
      }
      if try await head(object) != bytes.prefix(64) { found.notes.append("What is got is not what was put.") }
    }

    /// What becomes of a put with a condition.
    enum ConditionalOutcome: Equatable {
      case done
      /// The condition does not hold.
      case refused
      case unsupported
    }

    /// - Throws: `RemoteError` for other failures than those of the condition.
    func put(
      _ bytes: Data, as object: RemoteName, _ conditions: [(name: String, value: String)]
    ) async throws -> ConditionalOutcome {
      let answer = try await send("PUT", object, fields: conditions, body: .bytes(bytes))
      switch answer.status {
      case 200:
        try await answer.finish()
        return .done
      case 404 where conditions.contains { $0.name == "if-match" }:
        // There is nothing to replace.
        try await expectAbsence(answer, "PUT", object)
        return .refused
      // 409: another such put is under way.
      case 409, 412:
        try await answer.finish()
        return .refused
      case 501:
        try await answer.finish()
        return .unsupported
      default: throw try await failure(answer, "PUT", object)
      }
    }
  }
#endif
