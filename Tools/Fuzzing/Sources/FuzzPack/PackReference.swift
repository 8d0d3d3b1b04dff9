internal import FuzzSupport

/// A reader of one chunk that implements only Spec/PackFormat.md.
enum PackReference {
  struct Record {
    let name: [UInt8]
    let payload: [UInt8]
    let sequence: UInt64
    let offset: Int
    let byteCount: Int
    let hasExtension: Bool
    let isSound: Bool
  }

  /// The ranges of a possible record's parts, by its mark and its sizes.
  struct Parts {
    let name: Range<Int>
    let payload: Range<Int>
    let end: Int
    let hasExtension: Bool
  }

  static func parts(at offset: Int, in chunk: [UInt8]) -> Parts? {
    guard offset % 512 <= 472, chunk.count - offset >= 64,
      chunk.integer(at: offset + 36, as: UInt32.self) == 0x4345_5250
    else { return nil }
    let (sequence, update, life): (UInt64, UInt64, UInt64) = (
      chunk.integer(at: offset + 8), chunk.integer(at: offset + 16), chunk.integer(at: offset + 24)
    )
    let (name, payload, tail) = (Int(sequence >> 56), Int(update >> 40 & 0xFFFF), Int(life >> 40 & 0xFFFF))
    let byteCount = 40 + name + payload + tail
    guard update >> 56 == (tail > 0 ? 14 : 6), tail == 0 || tail >= 16, life >> 56 == 0, name > 0, byteCount <= 32_752,
      max(64, byteCount) <= chunk.count - offset
    else { return nil }
    let start = offset + 40
    return Parts(
      name: start..<start + name, payload: start + name..<start + name + payload, end: offset + max(64, byteCount),
      hasExtension: tail > 0)
  }

  /// Returns the checksum of a record in the first chunk of the first pack, whose address is its offset divided by 8.
  static func crc(at offset: Int, in chunk: [UInt8], upTo end: Int) -> UInt32 {
    var bytes = [UInt8](repeating: 0, count: 12)
    bytes.put(PackInput.salt, at: 0)
    bytes.put(UInt64(offset / 8), at: 4)
    return ReferenceChecksum.crc32(bytes + chunk[offset + 4..<end])
  }

  private static func record(at offset: Int, in chunk: [UInt8]) -> Record? {
    guard let parts = parts(at: offset, in: chunk),
      chunk.integer(at: offset) == crc(at: offset, in: chunk, upTo: parts.payload.lowerBound)
    else { return nil }
    let payload = Array(chunk[parts.payload])
    return Record(
      name: Array(chunk[parts.name]), payload: payload,
      sequence: chunk.integer(at: offset + 8, as: UInt64.self) & (1 << 56 - 1), offset: offset,
      byteCount: parts.end - offset, hasExtension: parts.hasExtension,
      isSound: chunk.integer(at: offset + 4) == ReferenceChecksum.crc32(payload))
  }

  /// Returns the records in the chunk, including dead ones.
  static func walk(_ input: PackInput) -> [Record] {
    guard input.hasSalt else { return [] }
    var records: [Record] = []
    var offset = 0
    while offset + 64 <= input.chunk.count {
      if let found = record(at: offset, in: input.chunk) {
        records.append(found)
        offset = (offset + found.byteCount + 7) / 8 * 8
      } else {
        offset += 8
      }
    }
    return records
  }

  /// Returns the newest record of each name.
  static func newest(of records: some Sequence<Record>) -> [[UInt8]: Record] {
    var newest: [[UInt8]: Record] = [:]
    for record in records {
      if let rival = newest[record.name], (rival.sequence, rival.offset) > (record.sequence, record.offset) { continue }
      newest[record.name] = record
    }
    return newest
  }
}
