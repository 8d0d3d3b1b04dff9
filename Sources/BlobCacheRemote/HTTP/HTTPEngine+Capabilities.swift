#if Remote
  public import BlobCache
  internal import NIOHTTP1
  internal import TextFormats

  extension HTTPEngine {
    /// - Throws: `RemoteError`; `unsupported` for every server except `blobcache serve`.
    public func list(_ prefix: RemoteName, page: String?) async throws -> RemotePage {
      guard isBlobCache else {
        throw RemoteError(
          .unsupported, "\(name) cannot list: of HTTP servers, only blobcache serve does, below /v1/blobs")
      }
      var target = "\(settings.endpoint.path)?limit=1000&prefix=\(PercentEncoding.encoded(prefix.string))"
      if let page { target += "&after=\(PercentEncoding.encoded(page))" }
      let answer = try await send(HTTPRequest(method: "GET", target: target))
      guard answer.status == 200 else { throw try await failure(answer, "GET", prefix) }
      // A page has at most a thousand keys of some kilobytes each.
      let bytes = try await answer.bytes(upTo: 1 << 24)
      var names: [RemoteName] = []
      for line in bytes.split(separator: UInt8(ascii: "\n")) {
        guard let entry = try? JSONDecoder().decode(ListedBlob.self, from: line) else {
          throw RemoteError(.failed, "\(name): a line of the list is no JSON; look at the path of the endpoint")
        }
        if let key = entry.key { names.append(RemoteName(key)) }
      }
      return RemotePage(names: names, next: answer.field("X-BlobCache-Next"))
    }

    public func capabilities(under prefix: RemoteName) async throws -> RemoteCapabilities {
      var found = RemoteCapabilities()
      (found.lists, found.expiry, found.streams) = (isBlobCache, isBlobCache, true)
      found.removes = try await withProbe(under: prefix) { object in try await probe(object, &found) }
      if !found.removes {
        found.notes.append(
          "DELETE is not allowed: what is removed is hidden by the machine that removed it, and stays there.")
      }
      if settings.names == .sha256 { found.notes.append("Names are digests, which tell no keys.") }
      found.leases = isBlobCache && found.conditionalPut
      return found
    }

    private func probe(_ object: RemoteName, _ found: inout RemoteCapabilities) async throws {
      let bytes = ProbeObject.bytes
      for isSecond in [false, true] {
        let answer = try await send("PUT", object, ["If-None-Match": "*"], .bytes(bytes))
        switch answer.status {
        case 200..<300: try await answer.finish()
        case 412 where isSecond:
          try await answer.finish()
          found.conditionalPut = true
        default: throw try await failure(answer, "PUT", object)
        }
      }
      if !found.conditionalPut { found.notes.append("PUT does not heed If-None-Match.") }
      if try await head(object) != bytes.prefix(64) { found.notes.append("What is got is not what was put.") }
    }
  }

  private struct ListedBlob: Decodable {
    let key: String?
  }
#endif
