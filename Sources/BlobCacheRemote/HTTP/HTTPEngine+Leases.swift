#if Remote
  public import BlobCache
  internal import NIOHTTP1

  /// A lease is an object `NAME%lease` of `blobcache serve` that holds its holder, and ends there by itself.
  extension HTTPEngine: RemoteLeasing {
    /// - Throws: `RemoteError`; `unsupported` for all servers but `blobcache serve`.
    public func acquireLease(_ name: RemoteName, as holder: String, for time: Duration) async throws -> Bool {
      guard isBlobCache else {
        throw RemoteError(
          .unsupported, "\(self.name) grants no leases: of HTTP servers, only blobcache serve does, below /v1/blobs")
      }
      let object = name.lease
      if try await take(object, as: holder, for: time, ["If-None-Match": "*"]) { return true }
      guard let (other, tag) = try await lease(object) else {
        // It has ended just now.
        return try await take(object, as: holder, for: time, ["If-None-Match": "*"])
      }
      guard other == holder, let tag else { return false }
      return try await take(object, as: holder, for: time, ["If-Match": tag])
    }

    public func releaseLease(_ name: RemoteName, as holder: String) async throws {
      let object = name.lease
      guard let (other, tag) = try await lease(object), other == holder, let tag else { return }
      let answer = try await send("DELETE", object, ["If-Match": tag])
      // 412: another has it now.
      guard (200..<300).contains(answer.status) || [404, 410, 412].contains(answer.status) else {
        throw try await failure(answer, "DELETE", object)
      }
      try await answer.finish()
    }

    /// - Returns: false if the condition does not hold.
    private func take(
      _ object: RemoteName, as holder: String, for time: Duration, _ conditions: HTTPHeaders
    ) async throws -> Bool {
      var fields = conditions
      fields.add(name: "X-BlobCache-TTL", value: "\(max(time.components.seconds, 1))")
      let answer = try await send("PUT", object, fields, .bytes(Data(holder.utf8)))
      guard (200..<300).contains(answer.status) || answer.status == 412 else {
        throw try await failure(answer, "PUT", object)
      }
      try await answer.finish()
      return answer.status != 412
    }

    /// Who holds the lease, and the version that says so.
    private func lease(_ object: RemoteName) async throws -> (holder: String, tag: String?)? {
      let answer = try await send("GET", object)
      switch answer.status {
      case 200: return (String(decoding: try await answer.bytes(upTo: 1 << 12), as: UTF8.self), answer.field("ETag"))
      case 404, 410:
        try await answer.finish()
        return nil
      default: throw try await failure(answer, "GET", object)
      }
    }
  }

  extension RemoteName {
    /// The object that is a lease of this one. No key's record has such a name: an escape follows each `%` in those.
    var lease: RemoteName { RemoteName("\(string)%lease") }
  }
#endif
