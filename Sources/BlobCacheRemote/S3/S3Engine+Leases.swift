internal import BlobRecord
internal import TextFormats

#if Remote
  public import BlobCache
  internal import Locks

  /// A lease is an object `NAME%lease` with its holder and duration. Its age is determined by the server's clock.
  extension S3Engine: RemoteLeasing {
    /// - Throws: `RemoteError`; `unsupported` unless a probe showed that the server enforces conditional uploads.
    public func acquireLease(_ name: RemoteName, as holder: String, for time: Duration) async throws -> Bool {
      let object = name.lease
      let can = try await leaseCapabilities(for: object)
      let bytes = S3Lease(holder: holder, seconds: S3Lease.seconds(time)).bytes
      if try await put(bytes, as: object, [("if-none-match", "*")]) == .done { return true }
      guard let found = try await lease(object) else {
        // The lease was released in the meantime.
        return try await put(bytes, as: object, [("if-none-match", "*")]) == .done
      }
      // An object with other content belongs to another program.
      guard let lease = found.lease, lease.holder == holder || found.hasEnded else { return false }
      if can.conditionalReplace, let tag = found.tag {
        return try await put(bytes, as: object, [("if-match", tag)]) == .done
      }
      // Another client can do the same between these two steps. Both then produce the value.
      try await remove(object)
      return try await put(bytes, as: object, [("if-none-match", "*")]) == .done
    }

    public func releaseLease(_ name: RemoteName, as holder: String) async throws {
      let object = name.lease
      guard let found = try await lease(object), found.lease?.holder == holder else { return }
      // A server without support for the condition may refuse a request that contains it.
      let isConditional = seen.withLock { $0?.conditionalReplace == true }
      let tag = isConditional ? found.tag : nil
      var answer = try await send("DELETE", object, fields: tag.map { [("if-match", $0)] } ?? [])
      if answer.status == 501, tag != nil {
        try await answer.finish()
        answer = try await send("DELETE", object)
      }
      // A status of 412 means that another holder has acquired the lease.
      guard answer.status != 412 else { return try await answer.finish() }
      if (200..<300).contains(answer.status) { return try await answer.finish() }
      try await expectAbsence(answer, "DELETE", object)
    }

    private func leaseCapabilities(for object: RemoteName) async throws -> RemoteCapabilities {
      let can: RemoteCapabilities
      if let seen = seen.withLock({ $0 }) {
        can = seen
      } else {
        let end = object.string.lastIndex(of: "/") ?? object.string.startIndex
        can = try await lookUpCapabilitiesOnce(for: RemoteName(String(object.string[..<end])))
      }
      guard can.leases else {
        throw RemoteError(.unsupported, "\(name) grants no leases: PUT does not heed If-None-Match (capability)")
      }
      return can
    }

    /// Coalesces concurrent probes and caches the result for one minute, including a failure.
    private func lookUpCapabilitiesOnce(for prefix: RemoteName) async throws -> RemoteCapabilities {
      let now = ContinuousClock.now
      let (outcome, isNew) = leaseLookup.withLock { lookup -> (Outcome<RemoteCapabilities>, Bool) in
        if let lookup, now < lookup.end { return (lookup.outcome, false) }
        let outcome = Outcome<RemoteCapabilities>()
        lookup = (outcome, now + .seconds(60))
        return (outcome, true)
      }
      if isNew {
        Task {
          do {
            outcome.end(.success(try await lookUpCapabilities(under: prefix)))
          } catch {
            outcome.end(.failure(error))
          }
        }
      }
      return try await outcome.value()
    }

    private struct FoundLease {
      let lease: S3Lease?
      let hasEnded: Bool
      let tag: String?
    }

    private func lease(_ object: RemoteName) async throws -> FoundLease? {
      let answer = try await send("GET", object)
      guard answer.status == 200 else {
        try await expectAbsence(answer, "GET", object)
        return nil
      }
      let lease = S3Lease(try await answer.bytes(upTo: 1 << 12))
      let hasEnded = lease?.hasEnded(modified: answer.field("Last-Modified"), now: answer.field("Date")) == true
      return FoundLease(lease: lease, hasEnded: hasEnded, tag: answer.field("ETag"))
    }
  }
#endif

struct S3Lease: Equatable {
  let holder: String
  /// The duration of the lease, starting with the upload of the object.
  let seconds: Int64

  init(holder: String, seconds: Int64) {
    self.holder = holder
    self.seconds = seconds
  }

  init?(_ bytes: some Sequence<UInt8>) {
    let lines = String(decoding: Array(bytes), as: UTF8.self).split(separator: "\n", omittingEmptySubsequences: false)
    guard lines.count == 4, lines[0] == Self.title, lines[3].isEmpty, let holder = PercentEncoding.decoded(lines[1]),
      let seconds = Int64(lines[2]), seconds > 0
    else { return nil }
    self.init(holder: holder, seconds: seconds)
  }

  private static let title = "blobcache lease"

  var bytes: Data { Data("\(Self.title)\n\(PercentEncoding.encoded(holder))\n\(seconds)\n".utf8) }

  static func seconds(_ time: Duration) -> Int64 {
    max(time.components.seconds + (time.components.attoseconds > 0 ? 1 : 0), 1)
  }

  /// - Returns: `false` if the server does not report both times. Other clients then wait and produce the value.
  func hasEnded(modified: String?, now: String?) -> Bool {
    guard let start = modified.flatMap(HTTPDate.time)?.seconds, let now = now.flatMap(HTTPDate.time)?.seconds else {
      return false
    }
    return now - start > seconds
  }
}
