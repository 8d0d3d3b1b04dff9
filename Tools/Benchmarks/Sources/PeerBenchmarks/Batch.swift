import BlobRecord
import CRawFiles
import Foundation
import Measuring
import Workbench

/// A key in the forms that the peers need, and its payload.
struct Entry: Sendable {
  let key: BlobKey
  let raw: raw_key
  let name: String
  let payload: Payload
  /// The index of the payload.
  let payloadNumber: Int

  func withKeyBytes<Answer>(_ body: (UnsafeRawBufferPointer) throws -> Answer) rethrows -> Answer {
    try withUnsafeBytes(of: raw) { try body(UnsafeRawBufferPointer(rebasing: $0.prefix(name.utf8.count))) }
  }
}

/// The entries of a turn, which are the same for all peers.
struct Batch: Sendable {
  let entries: [Entry]
  /// The entries that `churn` removes, one for each entry that it stores.
  let leaving: [Entry]
  /// A Boolean value that indicates whether loads verify each byte, which must not be measured.
  let isVerified: Bool

  init(_ entries: [Entry], leaving: [Entry] = [], isVerified: Bool = false) {
    self.entries = entries
    self.leaving = leaving
    self.isVerified = isVerified
  }
}

struct Payload: Sendable {
  let bytes: Data
  /// The payload after a header of 64 bytes, for files that contain both.
  let record: Data

  static let headerSize = 64

  /// Stores the header and the payload contiguously, so that all peers use the payload at the same address, which
  /// affects the kernel's copy speed.
  init(_ payload: Data) {
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: Self.headerSize + payload.count, alignment: 16)
    memory[..<Self.headerSize].initializeMemory(as: UInt8.self, repeating: 0)
    payload.copyBytes(to: UnsafeMutableRawBufferPointer(rebasing: memory[Self.headerSize...]))
    let record = Data(
      bytesNoCopy: memory.baseAddress!, count: memory.count, deallocator: .custom { memory, _ in memory.deallocate() })
    self.record = record
    bytes = Data(
      bytesNoCopy: memory.baseAddress! + Self.headerSize, count: payload.count,
      deallocator: .custom { _, _ in withExtendedLifetime(record) {} })
  }
}

/// Incompressible payloads of one size, such as those of images and music.
struct Payloads: Sendable {
  let size: Int
  private let keyByteCount: Int
  private let all: [Payload]

  init(size: Int, keyByteCount: Int = Keys.longest) {
    self.size = size
    self.keyByteCount = keyByteCount
    // There are so many payloads that neither a database block nor a compressor's window contains one twice.
    let count = max(min((256 << 10) / max(size, 1), 2048), 4)
    var generator = SplitMix(seed: UInt64(size))
    all = (0..<count).map { _ in
      var bytes = Data(capacity: size + 8)
      while bytes.count < size { withUnsafeBytes(of: generator.next()) { bytes.append(contentsOf: $0) } }
      bytes.removeLast(bytes.count - size)
      return Payload(bytes)
    }
  }

  /// Returns the entries number `first` to `first + count` of an endless sequence without repetitions.
  func entries(from first: Int, count: Int) -> [Entry] {
    let keys = Keys(from: first, count: count, byteCount: keyByteCount)
    return (0..<count).map { index in
      let number = (first + index) % all.count
      return Entry(
        key: keys.blob[index], raw: keys.raw[index], name: "\(keys.blob[index])", payload: all[number],
        payloadNumber: number)
    }
  }

  /// Returns random entries of a range, which may include an entry twice.
  func entries(
    scatteredOver range: Range<Int>, count: Int, using generator: inout SplitMix
  ) -> [Entry] {
    (0..<count).flatMap { _ in entries(from: Int.random(in: range, using: &generator), count: 1) }
  }

  /// All payloads in succession, for other processes to read.
  var file: Data { all.reduce(into: Data()) { $0 += $1.bytes } }
}
