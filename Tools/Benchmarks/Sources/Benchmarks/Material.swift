import BlobRecord
import BlobStore
import CRawFiles
import Foundation
import Synchronization

/// The same keys for the store and for raw system calls.
struct Keys {
  let raw: [raw_key]
  let blob: [BlobKey]

  /// - Parameter first: keys of disjoint ranges are different.
  init(from first: Int, count: Int) {
    var raw = [raw_key](repeating: raw_key(), count: count)
    raw_make_keys(UInt64(first), count, &raw)
    self.raw = raw
    blob = raw.map { key in
      withUnsafeBytes(of: key.text) { BlobKey(String(decoding: $0.dropLast(), as: UTF8.self)) }
    }
  }

  private init(raw: [raw_key], blob: [BlobKey]) {
    self.raw = raw
    self.blob = blob
  }

  func prefix(_ count: Int) -> Keys {
    Keys(raw: Array(raw.prefix(count)), blob: Array(blob.prefix(count)))
  }
}

/// The same payload for the store and, with a header before it, for raw system calls.
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

/// A failed call of the raw side, or an answer that shows that the two sides do not do the same.
struct BenchmarkFailure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }

  /// Checks the answer of a raw function.
  static func check(_ result: some BinaryInteger, _ what: @autoclosure () -> String) throws {
    if result == -1 { throw BenchmarkFailure("\(what()): \(String(cString: strerror(errno)))") }
  }

  static func require(_ condition: Bool, _ what: @autoclosure () -> String) throws {
    if !condition { throw BenchmarkFailure(what()) }
  }
}
