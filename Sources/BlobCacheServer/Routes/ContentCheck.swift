internal import BlobCache
internal import BlobRecord

/// The comparison of a payload with the digest in its key, before it is sent as the content of that name.
///
/// A PUT makes this comparison too, but other programs and the remote tier can bring a record to the directory.
struct ContentCheck: Sendable {
  private let key: BlobKey
  private let digest: ContentDigest
  private let watch: PayloadWatch
  /// The state before the lookup. The result of a computation applies to it.
  private let before: PayloadWatch.Stamp?
  private let checks: ContentChecks

  /// Begins a check, which must precede the lookup of the blob. Returns `nil` for a key without a digest.
  init?(of key: BlobKey, _ cache: BlobCache, _ checks: ContentChecks) throws {
    guard let digest = KeyRule(key).digest else { return nil }
    self.key = key
    self.digest = digest
    self.checks = checks
    watch = try cache.payloadWatch(of: key)
    before = watch.stamp()
  }

  /// Compares the payload of a later lookup, unless an earlier result applies to it.
  ///
  /// - Parameter sentWhole: A Boolean value that indicates whether `body(of:)` can make the comparison instead.
  /// - Returns: This check if `body(of:)` must make the comparison, otherwise `nil`.
  /// - Throws: `WrongContent`.
  func check(_ found: StoredBlob, sentWhole: Bool) async throws -> ContentCheck? {
    // The stamp follows the lookup, so a result for the same stamp applies to this payload.
    if let isRight = checks.result(for: key, watch.stamp()) {
      guard isRight else { throw WrongContent(key: key) }
      return nil
    }
    if sentWhole { return self }
    let isRight = try await found.contentDigest() == digest
    checks.add(isRight, for: key, before)
    guard isRight else { throw WrongContent(key: key) }
    return nil
  }

  /// Returns the payload as a body that breaks off before its last bytes if the digest is wrong.
  func body(of found: StoredBlob) -> MessageBody {
    let pieces = CheckedPieces(pieces: found.pieces(of: 0..<found.byteCount), digest: digest) {
      [key, before, checks] isRight in
      checks.add(isRight, for: key, before)
    }
    return .stream(byteCount: found.byteCount, pieces)
  }
}

extension StoredBlob {
  fileprivate func contentDigest() async throws -> ContentDigest {
    switch self {
    case .whole(let blob): ContentDigest(SHA256Digest.digest(of: blob.payload.bytes))
    case .open(let reader): ContentDigest(try await reader.sha256())
    }
  }
}
