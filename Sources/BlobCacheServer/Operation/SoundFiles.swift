internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import Locks

/// Files whose payloads were compared with their checksums a short while ago.
///
/// So a payload that many requests ask for is not read twice for each: once to be compared, once to be sent. A file that
/// anything was written to since has another version. Bytes that a disk has changed by itself are noticed by the next
/// comparison.
final class SoundFiles: Sendable {
  private struct Sight: Equatable {
    let version: FileVersion
    let byteCount: Int64
    let checksum: UInt32?
  }

  /// For how many seconds a comparison holds.
  static let lifetime: Int64 = 10
  /// Keys that are remembered at the most.
  private static let limit = 4096

  private let sights = Lock<[BlobKey: (sight: Sight, time: UnixTime)]>([:])

  /// Whether a file with the key's blob was found to be sound, be it long ago.
  func hasSeen(_ key: BlobKey) -> Bool { sights.withLock { $0[key] != nil } }

  func contains(_ reader: CacheReader, at now: UnixTime) -> Bool {
    guard let sight = Self.sight(reader), let last = sights.withLock({ $0[reader.key] }) else { return false }
    let age = now.seconds.subtractingReportingOverflow(last.time.seconds)
    return last.sight == sight && !age.overflow && (0..<Self.lifetime).contains(age.partialValue)
  }

  func insert(_ reader: CacheReader, at now: UnixTime) {
    guard let sight = Self.sight(reader) else { return }
    sights.withLock { sights in
      // What is asked for often is soon there again.
      if sights.count >= Self.limit { sights.removeAll(keepingCapacity: true) }
      sights[reader.key] = (sight, now)
    }
  }

  /// - Returns: nil of a file that was written to just before: a further write might not show in its time.
  private static func sight(_ reader: CacheReader) -> Sight? {
    reader.blocking.version.map {
      Sight(version: $0, byteCount: reader.byteCount, checksum: reader.header.payloadChecksum)
    }
  }
}
