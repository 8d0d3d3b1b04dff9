import BlobRecord
import CRawFiles
import Foundation
import Measuring
import Workbench

/// One key in the forms that peers take it in, and what is stored under it.
struct Entry: Sendable {
  let key: BlobKey
  let raw: raw_key
  let name: String
  let payload: Payload
  /// Which of the payloads it is.
  let payloadNumber: Int

  func withKeyBytes<Answer>(_ body: (UnsafeRawBufferPointer) throws -> Answer) rethrows -> Answer {
    try withUnsafeBytes(of: raw) { try body(UnsafeRawBufferPointer(rebasing: $0.prefix(name.utf8.count))) }
  }
}

/// What a turn works on: the same for all.
struct Batch: Sendable {
  let entries: [Entry]
  /// What `churn` removes, one for each that it stores.
  let leaving: [Entry]
  /// Whether loads look at each byte, which is not to be measured.
  let isVerified: Bool

  init(_ entries: [Entry], leaving: [Entry] = [], isVerified: Bool = false) {
    self.entries = entries
    self.leaving = leaving
    self.isVerified = isVerified
  }
}

struct Payload: Sendable {
  let bytes: Data
  /// The payload after 64 bytes of a header, for files of both.
  let record: Data

  static let headerSize = 64

  /// Both in one place, so that all peers have the payload at the same address: how fast the kernel copies it, depends on that.
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

/// Payloads of one size, as images and music are: nothing compresses them.
struct Payloads: Sendable {
  let size: Int
  /// Of each key.
  private let keyByteCount: Int
  private let all: [Payload]

  init(size: Int, keyByteCount: Int = Keys.longest) {
    self.size = size
    self.keyByteCount = keyByteCount
    // So many different ones that a block of a database holds none twice, nor a window that a compressor looks back on.
    let count = max(min((256 << 10) / max(size, 1), 2048), 4)
    var generator = SplitMix(seed: UInt64(size))
    all = (0..<count).map { _ in
      var bytes = Data(capacity: size + 8)
      while bytes.count < size { withUnsafeBytes(of: generator.next()) { bytes.append(contentsOf: $0) } }
      bytes.removeLast(bytes.count - size)
      return Payload(bytes)
    }
  }

  /// The entries number `first` to `first + count` of an endless sequence without repetitions.
  func entries(from first: Int, count: Int) -> [Entry] {
    let keys = Keys(from: first, count: count, byteCount: keyByteCount)
    return (0..<count).map { index in
      let number = (first + index) % all.count
      return Entry(
        key: keys.blob[index], raw: keys.raw[index], name: "\(keys.blob[index])", payload: all[number],
        payloadNumber: number)
    }
  }

  /// Entries of a range that lie anywhere in it, each time others; one may be among them twice.
  func entries(
    scatteredOver range: Range<Int>, count: Int, using generator: inout SplitMix
  ) -> [Entry] {
    (0..<count).flatMap { _ in entries(from: Int.random(in: range, using: &generator), count: 1) }
  }

  /// One after the other, for other processes to read.
  var file: Data { all.reduce(into: Data()) { $0 += $1.bytes } }
}
