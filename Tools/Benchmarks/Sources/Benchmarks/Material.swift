import BlobRecord
import BlobStore
import Foundation
import Synchronization

/// A payload for the store; with a header before it, raw system calls write it too.
struct Material {
  let payload: Data
  /// Header and payload, without checksums.
  let record: [UInt8]

  init(payloadSize: Int) {
    // Not zeros, which some file systems do not store.
    payload = Data((0..<payloadSize).map { UInt8(truncatingIfNeeded: $0 &* 167 &+ $0 >> 8) })
    record = Self.header(payloadSize: payloadSize) + payload
  }

  /// A header that never expires, without checksums.
  ///
  /// - Parameter age: seconds before the start of the clock.
  static func header(payloadSize: Int, age: Int = 0) -> [UInt8] {
    let header = RecordHeader(
      ttl: UInt64(Int64.max), updateTime: UInt64(SteppingClock.start - Int64(age)), payloadSize: UInt64(payloadSize))
    return header.withEncodedBytes { span in span.withUnsafeBytes { Array($0) } }
  }
}

/// A clock that is a second later each time it is read, so that no touch finds its work done.
final class SteppingClock: Sendable {
  static let start: Int64 = 1_700_000_000
  private let seconds = Atomic(SteppingClock.start)

  func next() -> UnixTime {
    UnixTime(seconds: seconds.wrappingAdd(1, ordering: .relaxed).newValue)
  }
}
