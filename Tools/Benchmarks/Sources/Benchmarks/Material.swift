import BlobRecord
import BlobStore
import Foundation
import Synchronization

/// A payload for the store, and the record that raw system calls write.
struct Material {
  let payload: Data
  /// The header and the payload, without checksums.
  let record: [UInt8]

  init(payloadSize: Int) {
    // The bytes are not zeros, because some file systems do not store zeros.
    payload = Data((0..<payloadSize).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ $0 >> 8) })
    record = Self.header(payloadSize: payloadSize) + payload
  }

  /// Returns a header that never expires, without checksums.
  ///
  /// - Parameter age: The seconds before the start of the clock.
  static func header(payloadSize: Int, age: Int = 0) -> [UInt8] {
    let header = RecordHeader(
      ttl: UInt64(Int64.max), updateTime: UInt64(SteppingClock.start - Int64(age)), payloadSize: UInt64(payloadSize))
    return header.withEncodedBytes { span in span.withUnsafeBytes { Array($0) } }
  }
}

/// A clock that advances by a second with each reading, so that each touch has to write.
final class SteppingClock: Sendable {
  static let start: Int64 = 1_700_000_000
  private let seconds = Atomic(SteppingClock.start)

  func next() -> UnixTime {
    UnixTime(seconds: seconds.wrappingAdd(1, ordering: .relaxed).newValue)
  }
}
