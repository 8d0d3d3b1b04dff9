#if Remote
  public import BlobCache
  internal import BlobRecord
  internal import Locks

  #if canImport(FoundationEssentials)
    internal import FoundationEssentials
  #else
    internal import Foundation
  #endif

  /// A lease is an object `NAME.lease`: its holder, and the second after which it holds no more.
  extension S3Engine: RemoteLeasing {
    /// - Throws: `RemoteError`; `unsupported` for a server that was not seen to refuse a put with a condition.
    public func acquireLease(_ name: RemoteName, as holder: String, for time: Duration) async throws -> Bool {
      let object = Self.leaseName(of: name)
      let can = try await capabilities(for: object)
      let end = settings.now().advanced(bySeconds: max(time.components.seconds, 1))
      let bytes = Data("\(PercentEncoding.encoded(holder))\n\(end.seconds)\n".utf8)
      if try await put(bytes, as: object, [("if-none-match", "*")]) == .done { return true }
      guard let (lease, tag) = try await lease(object) else {
        // It was given back just now.
        return try await put(bytes, as: object, [("if-none-match", "*")]) == .done
      }
      guard lease.holder == holder || lease.end < settings.now() else { return false }
      if can.conditionalReplace, let tag { return try await put(bytes, as: object, [("if-match", tag)]) == .done }
      // Between these two another may do the same. Then both produce.
      try await remove(object)
      return try await put(bytes, as: object, [("if-none-match", "*")]) == .done
    }

    public func releaseLease(_ name: RemoteName, as holder: String) async throws {
      let object = Self.leaseName(of: name)
      guard let (lease, tag) = try await lease(object), lease.holder == holder else { return }
      let answer = try await send("DELETE", object, fields: tag.map { [("if-match", $0)] } ?? [])
      // 412: another has it now.
      guard answer.status != 412 else { return try await answer.finish() }
      if (200..<300).contains(answer.status) { return try await answer.finish() }
      try await expectAbsence(answer, "DELETE", object)
    }

    private static func leaseName(of name: RemoteName) -> RemoteName { RemoteName("\(name.string).lease") }

    /// - Throws: `RemoteError` `unsupported` where leases would exclude nobody.
    private func capabilities(for object: RemoteName) async throws -> RemoteCapabilities {
      let can: RemoteCapabilities
      if let seen = seen.withLock({ $0 }) {
        can = seen
      } else {
        let end = object.string.lastIndex(of: "/") ?? object.string.startIndex
        can = try await capabilities(under: RemoteName(String(object.string[..<end])))
      }
      guard can.leases else {
        throw RemoteError(.unsupported, "\(name) grants no leases: PUT does not heed If-None-Match (capability)")
      }
      return can
    }

    /// The lease that is there, and its entity tag.
    private func lease(_ object: RemoteName) async throws -> (lease: (holder: String, end: UnixTime), tag: String?)? {
      let answer = try await send("GET", object)
      guard answer.status == 200 else {
        try await expectAbsence(answer, "GET", object)
        return nil
      }
      let text = String(decoding: try await answer.bytes(upTo: 1 << 12), as: UTF8.self)
      let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
      // What is no lease holds nothing up.
      let end = lines.count > 1 ? Int64(lines[1]) ?? 0 : 0
      let holder = lines.first.flatMap { PercentEncoding.decoded($0) } ?? ""
      return ((holder, UnixTime(seconds: end)), answer.field("ETag"))
    }
  }
#endif
