internal import FuzzSupport

/// A fuzz input: the first chunk of a pack whose index is lost.
///
/// It consists of a byte that selects repairs, eight bytes with the dead bits of the first 64 cells, and the chunk.
struct PackInput {
  static let salt: UInt32 = 0x5EED_0001

  private let repairs: UInt8
  private let deadBits: [UInt8]
  private(set) var chunk: [UInt8]

  /// - Returns: The input, or `nil` if it is too short to contain a record.
  init?(_ input: [UInt8]) {
    guard input.count >= 9 + 64 else { return nil }
    repairs = input[0]
    deadBits = Array(input[1..<9])
    chunk = Array(input[9...])
    if repairs & 1 != 0 { repairChecksums() }
  }

  var hasSalt: Bool { repairs & 2 == 0 }

  /// The dead sector of the first quarter. The sectors of the other quarters are empty.
  var deadSector: [UInt8] {
    var sector = [UInt8](repeating: 0, count: 512)
    guard hasSalt else { return sector }
    sector.put(Self.salt, at: 0)
    sector.put(~Self.salt, at: 4)
    sector.replaceSubrange(8..<16, with: deadBits)
    return sector
  }

  func isDead(_ offset: Int) -> Bool {
    let cell = offset / 64
    return cell < 64 && deadBits[cell / 8] >> UInt8(cell % 8) & 1 == 1
  }

  /// Repairs all checksums, because random inputs contain no valid ones.
  private mutating func repairChecksums() {
    for offset in stride(from: 0, through: chunk.count - 64, by: 8) {
      guard let parts = PackReference.parts(at: offset, in: chunk) else { continue }
      chunk.put(ReferenceChecksum.crc32(chunk[parts.payload]), at: offset + 4)
      chunk.put(PackReference.crc(at: offset, in: chunk, upTo: parts.payload.lowerBound), at: offset)
    }
  }
}
