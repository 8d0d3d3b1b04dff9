internal import BlobCache
internal import BlobRecord
internal import Locks

/// The credentials that an engine uses, until they end or are refused.
final class CredentialCache: Sendable {
  private let source: any S3CredentialSource
  private let now: @Sendable () -> UnixTime
  private let known = Lock<(value: S3Credentials, end: UnixTime)?>(nil)

  init(_ source: any S3CredentialSource, now: @escaping @Sendable () -> UnixTime) {
    self.source = source
    self.now = now
  }

  /// - Parameter engine: what messages call the engine.
  /// - Throws: `RemoteError` `refused`; `CancellationError`.
  func credentials(for engine: String) async throws -> S3Credentials {
    let now = now()
    if let known = known.withLock({ $0 }), now < known.end { return known.value }
    let value: S3Credentials
    do {
      value = try await source.credentials()
    } catch is CancellationError {
      throw CancellationError()
    } catch {
      throw RemoteError(.refused, "\(engine): \(error)", cause: error)
    }
    for (text, part) in [
      (value.accessKey, "access key"), (value.secretKey, "secret key"), (value.sessionToken ?? "", "session token"),
    ]
    where text.hasControlCharacter {
      throw RemoteError(
        .refused, "\(engine): the \(part) of the credentials has a line end or another control character; remove it")
    }
    let end = min(now.advanced(bySeconds: 300), value.expiry?.advanced(bySeconds: -60) ?? now.advanced(bySeconds: 300))
    known.withLock { $0 = (value, end) }
    return value
  }

  /// The next request asks the source.
  func forget() { known.withLock { $0 = nil } }
}
