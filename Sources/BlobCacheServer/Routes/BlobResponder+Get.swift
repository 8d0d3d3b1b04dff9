internal import BlobCache
internal import BlobRecord
internal import BlobStore

extension BlobResponder {
  /// Payloads up to this size are loaded as a whole and cached in memory for the next request.
  private static var largestWhole: UInt64 { UInt64(PayloadPieces.pieceSize) }
  /// Payloads up to this size are verified before the response begins.
  private static var largestComparedFirst: Int64 { 4 << 20 }
  /// Requests with more ranges receive the whole payload, because each range costs a read and a part header.
  private static var mostRanges: Int { 16 }

  /// - Parameters:
  ///   - isForHeadAlone: A Boolean value that indicates whether the payload is omitted and the blob is not touched.
  ///   - renews: A Boolean value that indicates whether an access restarts the blob's own time to live.
  func get(
    _ key: BlobKey, _ request: ServerRequest, isForHeadAlone: Bool = false, renews: Bool = false
  ) async throws -> ServerResponse {
    let preconditions = try Preconditions(request.fields, now: now)
    let content = try ContentCheck(of: key, cache, contentChecks)
    let found: StoredBlob?
    do {
      if isForHeadAlone, let answer = try await answerFromElsewhere(key, preconditions) { return answer }
      found = isForHeadAlone ? try await openReader(for: key) : try await lookUp(key)
    } catch let failure where Self.isStillWritten(failure) {
      // The digest of unfinished content is unknown.
      guard content == nil else { throw Refusal(404, "there is no such blob yet") }
      return try await follow(key, preconditions, isForHeadAlone: isForHeadAlone)
    }
    // Preconditions apply only to requests that would succeed without them (RFC 9110, 13.2.1).
    guard let found else { throw Refusal(404, "there is no such blob") }
    let isWhole = !isForHeadAlone && request.fields["Range"] == nil
    let unproven = try await content?.check(found, sentWhole: isWhole && found.byteCount > Self.largestComparedFirst)
    if renews, !isForHeadAlone { await renew(key, found.header) }
    return try await answer(
      to: request, preconditions, with: found, as: found.mediaType, isForHeadAlone: isForHeadAlone,
      proving: unproven)
  }

  func answer(
    to request: ServerRequest, _ preconditions: Preconditions, with found: StoredBlob, as mediaType: MediaType?,
    isForHeadAlone: Bool = false, proving content: ContentCheck? = nil
  ) async throws -> ServerResponse {
    let stored = Validators(found.header)
    guard preconditions.allowsMatch(stored) else {
      throw Refusal(412, "what is stored is another payload")
    }
    let fields = fields(of: found.header, stored, mediaType)
    let type = mediaType?.answeredText ?? MediaType.unknown
    guard preconditions.allowsNoneMatch(stored) else {
      var response = ServerResponse(status: 304, fields: fields)
      // Equal payloads have the same tag, but may have been stored with different types.
      response.fields.append("Content-Type", type)
      return response
    }
    if !isForHeadAlone, let asked = try Self.ranges(request, stored.tag),
      let response = try Self.part(asked, of: found, fields, mediaType)
    {
      return response
    }
    var response = ServerResponse(status: 200, fields: fields)
    if isForHeadAlone {
      response.body = .omitted(byteCount: found.byteCount)
    } else if let content {
      response.body = content.body(of: found)
    } else {
      response.body = try await body(of: found)
    }
    response.fields.append("Content-Type", type)
    return response
  }

  private func lookUp(_ key: BlobKey) async throws -> StoredBlob? {
    if !revalidates, let blob = cache.blobInMemory(for: key) { return .whole(blob) }
    if !soundFiles.hasVerified(key) {
      let header = try await cache.header(for: key)
      // A blob of the remote tier is loaded into a file, regardless of its size. A load counts missing blobs as misses.
      let comesInPieces = header == nil && cache.configuration.remote?.mode.reads == true
      if !comesInPieces, header?.payloadSize ?? 0 <= Self.largestWhole {
        return try await cache.load(key).map { .whole($0) }
      }
    }
    return try await openReader(for: key, touching: true)
  }

  /// The payload is verified before the last bytes of the body are sent.
  private func body(of blob: StoredBlob) async throws -> MessageBody {
    let all = 0..<blob.byteCount
    // An empty payload has no part that could be sent from a file.
    guard !all.isEmpty else { return .bytes(Data()) }
    switch blob {
    case .whole(let blob) where blob.payload.count <= PayloadPieces.pieceSize: return .bytes(blob.payload)
    case .open(let reader) where reader.byteCount <= Self.largestComparedFirst:
      if !soundFiles.contains(reader, at: now) {
        try await reader.verify()
        soundFiles.insert(reader, at: now)
      }
      return .file(FilePart(reader: reader, range: all, isRead: true))
    case .whole, .open: return blob.body(of: all)
    }
  }

  func openReader(for key: BlobKey, touching: Bool = false) async throws -> StoredBlob? {
    try await cache.openReader(for: key, touching: touching).map { .open($0) }
  }

  func fields(of header: RecordHeader, _ stored: Validators, _ mediaType: MediaType?) -> HeaderFields {
    var fields = HeaderFields()
    fields.reserveCapacity(12)
    fields.append("ETag", stored.tag.fieldValue)
    fields.append("Accept-Ranges", "bytes")
    // A clock ahead may have stamped the record, but a time after `Date` must not be sent (RFC 9110, 8.8.2.1).
    if let modified = stored.lastModified { fields.append("Last-Modified", HTTPDate.text(min(modified, now))) }
    let expiry = cache.configuration.store.expiry.defaultTimeToLive.components.seconds
    let lifetime = header.ttl > 0 ? Int64(clamping: header.ttl) : max(expiry, 60)
    let age = max(0, now.seconds.subtractingReportingOverflow(header.lastUpdate.seconds).partialValue)
    fields.append("Age", "\(age)")
    // The lifetime counts from the store, as `Age` does, which caches subtract from it (RFC 9111, 4.2).
    fields.append("Cache-Control", "\(sharing)max-age=\(min(lifetime, Int64(Int32.max)))")
    fields.append(RequestedLifetime.fieldName, Self.text(ofTimeToLive: header.ttl))
    if header.isLocked { fields.append("X-BlobCache-Locks", "\(header.refCount)") }
    // Stored content must never run as a page of this server.
    fields.append("X-Content-Type-Options", "nosniff")
    fields.append("Content-Security-Policy", "default-src 'none'; sandbox")
    // Other sites must not embed it either.
    fields.append("Cross-Origin-Resource-Policy", "same-origin")
    if mediaType?.isPassive != true { fields.append("Content-Disposition", "attachment") }
    return fields
  }

  /// A cache that several clients share must not answer those whom the server would refuse (RFC 9111, 5.2.2.7).
  private var sharing: String {
    let isPrivate =
      entrance != nil || configuration.transportIdentifiesClients || configuration.access.identifiesCallers
    return isPrivate ? "private, " : ""
  }

  private static func text(ofTimeToLive seconds: UInt64) -> String {
    switch seconds {
    case 0: "0"
    case UInt64(Int64.max)...: "never"
    default: "\(seconds)"
    }
  }
}

// MARK: - Ranges

extension BlobResponder {
  /// - Throws: 400 for an invalid range of bytes, and for several `Range` fields.
  private static func ranges(_ request: ServerRequest, _ tag: EntityTag) throws(Refusal) -> ByteRanges? {
    guard let text = request.fields["Range"] else { return nil }
    // Ranges of other units are ignored (RFC 9110, 14.2).
    guard text.split(separator: "=", maxSplits: 1).first?.trimmingBlanks.lowercased() == "bytes" else { return nil }
    guard request.fields.count(of: "Range") == 1, let ranges = ByteRanges(headerValue: text) else {
      throw Refusal(400, "Range must be such as bytes=0-1023, bytes=1024- or bytes=-500")
    }
    // A client cannot combine parts of different payloads. A date does not identify one payload (RFC 9110, 13.1.5).
    if let condition = request.fields["If-Range"], tag.isWeak || condition != tag.fieldValue { return nil }
    return ranges
  }

  /// - Returns: The partial response, or `nil` if the whole payload is preferable.
  private static func part(
    _ asked: ByteRanges, of blob: StoredBlob, _ fields: HeaderFields, _ mediaType: MediaType?
  ) throws(Refusal) -> ServerResponse? {
    let ranges = asked.resolved(byteCount: blob.byteCount)
    guard !ranges.isEmpty else {
      throw Refusal(
        416, "no such bytes: the payload has \(blob.byteCount)",
        fields: ["Content-Range": "bytes */\(blob.byteCount)"])
    }
    // Ranges that exceed the payload in total save no bytes.
    let total = ranges.reduce(Int64(0)) { $0.addingReportingOverflow(Int64($1.count)).partialValue }
    guard ranges.count == 1 || ranges.count <= mostRanges && total <= blob.byteCount else { return nil }
    var response = ServerResponse(status: 206, fields: fields)
    let type = mediaType?.answeredText ?? MediaType.unknown
    if ranges.count == 1 {
      let range = ranges[0]
      response.fields.append("Content-Type", type)
      response.fields.append(
        "Content-Range", "bytes \(range.lowerBound)-\(range.upperBound - 1)/\(blob.byteCount)")
      response.body = blob.body(of: range)
    } else {
      let parts = PartsOfBlob(blob, ranges, mediaType: type)
      response.fields.append("Content-Type", "multipart/byteranges; boundary=\(parts.boundary)")
      response.body = .stream(byteCount: parts.byteCount, parts)
    }
    return response
  }
}

extension BlobResponder {
  /// Answers HEAD for a blob that is not in the directory, from the header in the remote tier. The blob is not fetched.
  ///
  /// The media type is behind the payload in the record, so the answer has no `Content-Type`.
  ///
  /// - Returns: The response, or `nil` if the directory has the blob, or no readable remote tier is configured.
  /// - Throws: 404 and 412; the errors of `BlobCache.header(for:)`.
  func answerFromElsewhere(_ key: BlobKey, _ preconditions: Preconditions) async throws -> ServerResponse? {
    guard cache.configuration.remote?.mode.reads == true else { return nil }
    var damage: BlobStoreError?
    do {
      guard try await cache.header(for: key) == nil else { return nil }
    } catch let error as BlobStoreError where error.code == .damaged && !Self.isStillWritten(error) {
      // A load of a damaged record asks the remote tier too.
      damage = error
    }
    guard let header = try await cache.remoteHeader(for: key) else {
      throw (damage as (any Error)?) ?? Refusal(404, "there is no such blob")
    }
    let stored = Validators(header)
    guard preconditions.allowsMatch(stored) else { throw Refusal(412, "what is stored is another payload") }
    let fields = fields(of: header, stored, nil)
    guard preconditions.allowsNoneMatch(stored) else { return ServerResponse(status: 304, fields: fields) }
    return ServerResponse(
      status: 200, fields: fields, body: .omitted(byteCount: Int64(clamping: header.payloadSize)))
  }

  static func isStillWritten(_ error: any Error) -> Bool {
    (error as? BlobStoreError)?.recordError == .recordIsStreamAndBusy
  }

  func validators(of key: BlobKey) async throws -> Validators? {
    do {
      return try await cache.header(for: key).map(Validators.init)
    } catch let failure where Self.isStillWritten(failure) {
      return .unknown
    }
  }

  /// Streams a blob while it is being written. The response is aborted if the writer discards the blob.
  func follow(
    _ key: BlobKey, _ preconditions: Preconditions, isForHeadAlone: Bool
  ) async throws -> ServerResponse {
    guard preconditions.allowsMatch(.unknown) else { throw Refusal(412, "what is stored is another payload") }
    // The size and type of the blob are not known yet.
    let fields: HeaderFields = [
      "Content-Type": MediaType.unknown, "Content-Disposition": "attachment", "Cache-Control": "no-store",
      "X-Content-Type-Options": "nosniff", "Content-Security-Policy": "default-src 'none'; sandbox",
      "Cross-Origin-Resource-Policy": "same-origin",
    ]
    guard preconditions.allowsNoneMatch(.unknown) else { return ServerResponse(status: 304, fields: fields) }
    if isForHeadAlone { return ServerResponse(status: 200, fields: fields, body: .omitted(byteCount: nil)) }
    guard let follower = try await cache.openFollower(for: key) else { throw Refusal(404, "there is no such blob") }
    return ServerResponse(
      status: 200, fields: fields,
      body: .stream(byteCount: nil, follower.pieces(pieceSize: PayloadPieces.pieceSize)))
  }
}
