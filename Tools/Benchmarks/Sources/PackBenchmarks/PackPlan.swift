import BlobRecord
import BlobStore
import Foundation
import Measuring
import SystemPackage
import Workbench

/// The extent, the directory and the records of a run.
struct PackPlan {
  let directory: FilePath
  let rounds: Int
  /// The number of records in the large cache. The cache at its limit has room for a fifth of them.
  let records: Int
  let isQuick: Bool

  static let payloadByteCount = 128
  static let keyByteCount = 24
  /// The bytes that a record counts against a size limit.
  static let logicalByteCount = payloadByteCount + RecordHeader.byteCount
  static let payload = payload(payloadByteCount)

  /// Returns an incompressible payload.
  static func payload(_ byteCount: Int) -> Data {
    var generator = SplitMix(seed: 1)
    return Data((0..<byteCount).map { _ in UInt8.random(in: 0 ... .max, using: &generator) })
  }

  static func keys(from first: Int, count: Int) -> [BlobKey] {
    Keys(from: first, count: count, byteCount: keyByteCount).blob
  }

  static func key(_ number: Int) -> BlobKey { keys(from: number, count: 1)[0] }

  /// Returns a configuration without durability, limits, or expiry.
  static func configuration(isPacked: Bool = true) -> BlobStore.Configuration {
    var configuration = BlobStore.Configuration()
    configuration.packing = isPacked ? .upTo(8 << 10) : .off
    configuration.durability = .none
    configuration.limits.freeSpaceFloor = 0
    configuration.expiry.defaultTimeToLive = .seconds(Int64.max)
    return configuration
  }

  static func fill(_ store: BlobStore, from first: Int = 0, count: Int, _ payload: Data = payload) throws {
    // Stores the keys in parts, so that a million keys do not occupy memory.
    for part in stride(from: first, to: first + count, by: 10_000) {
      for key in keys(from: part, count: min(10_000, first + count - part)) {
        try store.store(payload, for: key, ttl: .seconds(Int64.max))
      }
    }
  }
}
