internal import BlobCache
internal import BlobRecord
internal import BlobStore

extension BlobResponder {
  /// Returns the stored form of a record: header, payload and extension. The record is not touched.
  func record(_ key: BlobKey) async throws -> ServerResponse {
    guard let reader = try await cache.openReader(for: key, touching: false) else {
      throw Refusal(404, "there is no such blob")
    }
    let record = WholeRecord(reader)
    return ServerResponse(
      status: 200,
      fields: [
        "Content-Type": "application/vnd.blobcache.record", "Content-Disposition": "attachment",
        "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
      ], body: .stream(byteCount: record.byteCount, record))
  }
}

private struct WholeRecord: AsyncSequence, Sendable {
  typealias Element = Data
  typealias Failure = any Error

  private let head: Data
  private let payload: PayloadPieces
  private let tail: Data

  init(_ reader: CacheReader) {
    tail = Data(reader.blocking.extensionBytes)
    var header = reader.header
    // In the file, earlier extensions may precede the current one.
    header.extensionEnd = tail.isEmpty ? nil : UInt32(tail.count)
    head = header.withEncodedBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Data($0) } }
    payload = PayloadPieces(source: .reader(reader), range: 0..<reader.byteCount)
  }

  var byteCount: Int64 { Int64(head.count) + Int64(payload.range.count) + Int64(tail.count) }

  func makeAsyncIterator() -> Iterator {
    Iterator(head: head, payload: payload.makeAsyncIterator(), tail: tail.isEmpty ? nil : tail)
  }

  struct Iterator: AsyncIteratorProtocol {
    fileprivate var head: Data?
    fileprivate var payload: PayloadPieces.Iterator
    fileprivate var tail: Data?

    mutating func next() async throws -> Data? {
      if let head = head.take() { return head }
      if let piece = try await payload.next() { return piece }
      return tail.take()
    }
  }
}

extension BlobResponder {
  func remove(_ key: BlobKey, _ request: ServerRequest) async throws -> ServerResponse {
    let preconditions = try Preconditions(request.fields, now: now)
    let change = JudgedChange(preconditions)
    let removal =
      preconditions.areAbsent ? try await cache.remove(key) : try await cache.remove(key, if: change.allows)
    if let removal {
      let isMeant = removal == .done || preconditions.allowChange(of: nil)
      let there = isMeant ? await cache.remoteSettled(key) : nil
      return try Self.response(to: removal, fields: there.map { ["X-BlobCache-Remote": $0.rawValue] } ?? [:])
    }
    // Preconditions apply only to requests that would succeed without them (RFC 9110, 13.2.1).
    throw change.hasFound ? change.refusal : Refusal(404, "there is no such blob")
  }

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
