internal import BlobCache
internal import BlobRecord
internal import BlobStore

// Blobs that are still being written.
extension BlobResponder {
  /// Whether an operation has failed because the blob is still being written.
  static func isStillWritten(_ error: any Error) -> Bool {
    (error as? BlobStoreError)?.recordError == .recordIsStreamAndBusy
  }

  /// By what conditions know what a key has; nil for nothing.
  func validators(of key: BlobKey) async throws -> Validators? {
    do {
      return try await cache.header(for: key).map(Validators.init)
    } catch let failure where Self.isStillWritten(failure) {
      return .unknown
    }
  }

  /// The answer to a GET of a blob that is still being written: what there is of it, then what comes, to its end.
  ///
  /// It breaks off if the blob is given up.
  func follow(
    _ key: BlobKey, _ preconditions: Preconditions, isForHeadAlone: Bool
  ) async throws -> ServerResponse {
    guard preconditions.allowsMatch(.unknown) else { throw Refusal(412, "what is stored is another payload") }
    // What the blob will be is not known yet, neither its size nor its type.
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
