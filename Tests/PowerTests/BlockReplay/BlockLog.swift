import Foundation

/// The writes that reached a disk, as logged by `blocklog`.
struct BlockLog {
  struct Entry {
    enum Kind {
      case write(offset: Int, bytes: Data)
      case flush
    }

    /// The time by CLOCK_MONOTONIC.
    var nanoseconds: UInt64
    var kind: Kind
  }

  var entries: [Entry] = []

  struct Malformed: Error {}

  init(contentsOf path: String) throws {
    let data = try Data(contentsOf: URL(filePath: path))
    var offset = 0
    func number<Number: FixedWidthInteger>(_ type: Number.Type) -> Number {
      defer { offset += MemoryLayout<Number>.size }
      return data.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: type) }
    }
    while offset < data.count {
      guard data.count - offset >= 24 else { throw Malformed() }
      let nanoseconds = number(UInt64.self)
      let place = Int(number(UInt64.self))
      let length = Int(number(UInt32.self))
      let kind = number(UInt32.self)
      guard data.count - offset >= length else { throw Malformed() }
      let bytes = data[offset..<(offset + length)]
      offset += length
      entries.append(Entry(nanoseconds: nanoseconds, kind: kind == 1 ? .write(offset: place, bytes: bytes) : .flush))
    }
  }

  static func now() -> UInt64 {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
  }
}
