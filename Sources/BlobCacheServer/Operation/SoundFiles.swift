internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import Locks

/// The recently verified files, whose payloads need not be read again. A write gives a file another version.
final class SoundFiles: Sendable {
  private struct Sight: Equatable {
    let version: FileVersion
    let byteCount: Int64
    let checksum: UInt32?
  }

  /// The validity of a verification in seconds.
  static let lifetime: Int64 = 10
  private static let limit = 4096

  private let sights = Lock<[BlobKey: (sight: Sight, time: UnixTime)]>([:])

  /// Returns whether a key has a verification, which may be expired.
  func hasSeen(_ key: BlobKey) -> Bool { sights.withLock { $0[key] != nil } }

  func contains(_ reader: CacheReader, at now: UnixTime) -> Bool {
    guard let sight = Self.sight(reader), let last = sights.withLock({ $0[reader.key] }) else { return false }
    let age = now.seconds.subtractingReportingOverflow(last.time.seconds)
    return last.sight == sight && !age.overflow && (0..<Self.lifetime).contains(age.partialValue)
  }

  func insert(_ reader: CacheReader, at now: UnixTime) {
    guard let sight = Self.sight(reader) else { return }
    sights.withLock { sights in
      // Frequently requested keys are soon inserted again.
      if sights.count >= Self.limit { sights.removeAll(keepingCapacity: true) }
      sights[reader.key] = (sight, now)
    }
  }

  /// A recently modified file has no version, because a further write might not change its modification time.
  private static func sight(_ reader: CacheReader) -> Sight? {
    reader.blocking.version.map {
      Sight(version: $0, byteCount: reader.byteCount, checksum: reader.header.payloadChecksum)
    }
  }
}
