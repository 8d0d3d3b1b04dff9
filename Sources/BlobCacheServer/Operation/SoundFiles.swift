internal import BlobCache
internal import BlobRecord
internal import BlobStore
internal import Locks

/// The recently verified files, whose payloads need not be read again. A write gives a file another version.
final class SoundFiles: Sendable {
  private struct VerifiedFile: Equatable {
    let version: FileVersion
    let byteCount: Int64
    let checksum: UInt32?
  }

  /// The validity of a verification in seconds.
  static let lifetime: Int64 = 10
  private static let limit = 4096

  private let verified = Lock<[BlobKey: (file: VerifiedFile, time: UnixTime)]>([:])

  /// Returns whether a key has a verification, which may be expired.
  func hasVerified(_ key: BlobKey) -> Bool { verified.withLock { $0[key] != nil } }

  func contains(_ reader: CacheReader, at now: UnixTime) -> Bool {
    guard let file = Self.file(reader), let last = verified.withLock({ $0[reader.key] }) else { return false }
    let age = now.seconds.subtractingReportingOverflow(last.time.seconds)
    return last.file == file && !age.overflow && (0..<Self.lifetime).contains(age.partialValue)
  }

  func insert(_ reader: CacheReader, at now: UnixTime) {
    guard let file = Self.file(reader) else { return }
    verified.withLock { verified in
      // Frequently requested keys are soon inserted again.
      if verified.count >= Self.limit { verified.removeAll(keepingCapacity: true) }
      verified[reader.key] = (file, now)
    }
  }

  /// A recently modified file has no version, because a further write might not change its modification time.
  private static func file(_ reader: CacheReader) -> VerifiedFile? {
    reader.blocking.version.map {
      VerifiedFile(version: $0, byteCount: reader.byteCount, checksum: reader.header.payloadChecksum)
    }
  }
}
