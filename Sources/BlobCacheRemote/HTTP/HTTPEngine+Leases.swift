#if Remote
  public import BlobCache
  internal import NIOHTTP1

  /// A lease is an object `NAME%lease` of `blobcache serve`, which contains its holder and expires automatically.
  extension HTTPEngine: RemoteLeasing {
    /// - Throws: `RemoteError`; `unsupported` for every server except `blobcache serve`.
    public func acquireLease(_ name: RemoteName, as holder: String, for time: Duration) async throws -> Bool {
      guard isBlobCache else {
        throw RemoteError(
          .unsupported, "\(self.name) grants no leases: of HTTP servers, only blobcache serve does, below /v1/blobs")
      }
      let object = name.lease
      if try await take(object, as: holder, for: time, ["If-None-Match": "*"]) { return true }
      guard let (other, tag) = try await lease(object) else {
        // The lease has expired in the meantime.
        return try await take(object, as: holder, for: time, ["If-None-Match": "*"])
      }
      guard other == holder, let tag else { return false }
      return try await take(object, as: holder, for: time, ["If-Match": tag])
    }

    public func releaseLease(_ name: RemoteName, as holder: String) async throws {
      let object = name.lease
      guard let (other, tag) = try await lease(object), other == holder, let tag else { return }
      let answer = try await send("DELETE", object, ["If-Match": tag])
      // A status of 412 means that another holder has acquired the lease.
      guard (200..<300).contains(answer.status) || [404, 410, 412].contains(answer.status) else {
        throw try await failure(answer, "DELETE", object)
      }
      try await answer.finish()
    }

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
    /// The name of the lease, which no record has, because in a record's name, every `%` begins an escape.
    var lease: RemoteName { RemoteName("\(string)%lease") }
  }
#endif
