/// Where a record begins: 37 bits that name a pack, a chunk in it, and an offset in the chunk.
///
/// Any 37 bits are an address; `canHoldRecord` tells those at which a record may begin.
package struct PackAddress: RawRepresentable, Hashable, Sendable {
  /// Below 2^37.
  package let rawValue: UInt64

  package static let bitCount: UInt64 = 37
  private static let mask: UInt64 = 1 << bitCount - 1
  private static let offsetBitCount: UInt64 = 17
  private static let chunkBitCount: UInt64 = 10

  /// - Parameter rawValue: bits from the 38th on are ignored.
  package init(rawValue: UInt64) { self.rawValue = rawValue & Self.mask }

  /// - Parameters:
  ///   - pack: 0 to 1023.
  ///   - chunk: 0 to 1023.
  ///   - offset: in the chunk, in bytes: a multiple of 8.
  package init(pack: Int, chunk: Int, offset: Int) {
    assert(0..<PackLayout.packCount ~= pack && 0..<PackLayout.chunkCount ~= chunk)
    assert(0..<PackLayout.chunkByteCount ~= offset && offset % PackLayout.recordAlignment == 0)
    let place = UInt64(truncatingIfNeeded: pack) << Self.chunkBitCount | UInt64(truncatingIfNeeded: chunk)
    self.init(rawValue: place << Self.offsetBitCount | UInt64(truncatingIfNeeded: offset / PackLayout.recordAlignment))
  }
}

extension PackAddress {
  package var pack: Int { Int(truncatingIfNeeded: rawValue >> (Self.offsetBitCount + Self.chunkBitCount)) }
  package var chunk: Int { Int(truncatingIfNeeded: rawValue >> Self.offsetBitCount & (1 << Self.chunkBitCount - 1)) }

  /// Bytes from the chunk's begin. A nonsensical address lies behind the chunk's end.
  package var offset: Int {
    Int(truncatingIfNeeded: rawValue & (1 << Self.offsetBitCount - 1)) * PackLayout.recordAlignment
  }

  /// Where the address's chunk begins.
  package var chunkStart: PackAddress { PackAddress(pack: pack, chunk: chunk, offset: 0) }

  /// Bytes from the pack file's begin.
  package var fileOffset: Int { PackLayout.fileOffset(ofChunk: chunk) + offset }

  /// Whether a record may begin here: the header within a sector, and the smallest record within the chunk.
  package var canHoldRecord: Bool {
    PackLayout.isPlace(offset) && offset <= PackLayout.chunkByteCount - PackLayout.smallestRecordByteCount
  }

  /// The bytes from here to the chunk's end; 0 at a nonsensical address.
  package var byteCountToChunkEnd: Int { max(0, PackLayout.chunkByteCount - offset) }
}

// MARK: - Salt and dead bit

extension PackAddress {
  /// The quarter of the chunk, whose dead sector has the record's salt: 0 to 3, where a record can lie here.
  package var quarter: Int { offset / PackLayout.quarterByteCount }

  /// The cell of the quarter, whose bit tells that the record is dead: 0 to 4031.
  package var cell: Int { offset % PackLayout.quarterByteCount / PackLayout.cellByteCount }

  /// The offset in the file of the dead sector's first word, which holds the salt.
  package var saltWordOffset: Int { PackLayout.deadSectorOffset(ofChunk: chunk, quarter: quarter) }

  /// The offset in the file of the word of 64 bits that has the cell's bit.
  package var deadWordOffset: Int { saltWordOffset + 8 + cell / 64 * 8 }

  /// The cell's bit in that word.
  package var deadBit: UInt64 { 1 << UInt64(truncatingIfNeeded: cell % 64) }
}
