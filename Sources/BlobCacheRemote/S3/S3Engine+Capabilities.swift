#if Remote
  public import BlobCache
  internal import BlobRecord
  internal import Locks

  extension S3Engine {
    /// Determines the capabilities of the server with uploads whose conditions fail.
    ///
    /// Conditions are used from then on if the server enforced them.
    public func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities {
      _ = try await list(prefix, page: nil)
      return try await lookUpCapabilities(under: prefix)
    }

    func lookUpCapabilities(under prefix: RemoteName) async throws -> RemoteCapabilities {
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
      let first: ConditionalOutcome
      do {
        first = try await put(bytes, as: object, none)
      } catch let error as RemoteError where error.kind == .failed || error.kind == .unsupported {
        first = .unsupported
      }
      if first == .unsupported {
        try await checkPut(bytes, as: object)
        found.notes.append("PUT with If-None-Match is not supported.")
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

    /// Puts an object without conditions, as a store does.
    ///
    /// - Throws: `RemoteError`; `unsupported`, which names the setting, if a PUT succeeds only without a checksum.
    private func checkPut(_ bytes: Data, as object: RemoteName) async throws {
      let refusal: RemoteError
      do {
        guard try await put(bytes, as: object, []) != .done else { return }
        refusal = RemoteError(.unsupported, "\(name): PUT is not supported; look at the endpoint")
      } catch let error as RemoteError where [.failed, .unsupported].contains(error.kind) {
        refusal = error
      }
      // The first refusal is reported if the second request fails too, for whatever reason.
      let plain = settings.sendsChecksums ? try? await put(bytes, as: object, [], checksum: []) : nil
      guard plain == .done else { throw refusal }
      throw RemoteError(
        .unsupported, "\(name): PUT with a checksum (x-amz-checksum-crc32) is not supported; set checksums=false")
    }

    enum ConditionalOutcome: Equatable {
      case done
      case refused
      case unsupported
    }

    /// - Throws: `RemoteError` for any failure, except if the condition does not hold.
    func put(
      _ bytes: Data, as object: RemoteName, _ conditions: [(name: String, value: String)],
      checksum: [(name: String, value: String)]? = nil
    ) async throws -> ConditionalOutcome {
      let checksum = checksum ?? checksumFields(CRC32.checksum(of: bytes.bytes))
      let answer = try await send("PUT", object, fields: conditions + checksum, body: .bytes(bytes))
      switch answer.status {
      case 200:
        try await answer.finish()
        return .done
      case 404 where conditions.contains { $0.name == "if-match" }:
        try await expectAbsence(answer, "PUT", object)
        return .refused
      // A status of 409 means that another conditional upload is active.
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
