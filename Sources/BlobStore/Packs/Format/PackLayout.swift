/// Where things lie in a pack file, and where a record may begin: Spec/PackFormat.md.
package enum PackLayout {
  /// The bytes `BLOBPACK` as a little-endian integer.
  package static let magic: UInt64 = 0x4B43_4150_424F_4C42
  package static let version: UInt64 = 1

  package static let packCount = 1024
  package static let chunkCount = 1024
  /// 252 pages of 4 KiB.
  package static let chunkByteCount = 1_032_192

  // The head of the file: its own fields, the crc of the 60 bytes before it, the chunk table and the dead sectors.
  package static let versionOffset = 8
  package static let numberOffset = 16
  package static let chunkCountOffset = 24
  package static let chunkByteCountOffset = 32
  /// Random: it tells a pack from one of the same number that was made anew.
  package static let identifierOffset = 40
  package static let crcOffset = 60
  package static let headerByteCount = 64

  package static let tableOffset = 4096
  package static let tableEntryByteCount = 64
  package static let deadSectorsOffset = tableOffset + chunkCount * tableEntryByteCount
  package static let chunksOffset = deadSectorsOffset + chunkCount * quarterCount * deadSectorByteCount
  /// A file whose chunks are all allocated.
  package static let largestFileByteCount = chunksOffset + chunkCount * chunkByteCount

  package static func tableEntryOffset(ofChunk chunk: Int) -> Int { tableOffset + chunk * tableEntryByteCount }
  package static func fileOffset(ofChunk chunk: Int) -> Int { chunksOffset + chunk * chunkByteCount }
}

// MARK: - The chunk table

extension PackLayout {
  /// Where the fields of a chunk table's entry lie in it.
  package enum TableEntry {
    /// The chunk's state in the low 8 bits, its owner's token above.
    package static let stateOffset = 0
    /// Records that have room and are not yet published.
    package static let inFlightOffset = 8
    /// The bytes that are given out so far.
    package static let endOffset = 12
    package static let liveByteCountOffset = 16
    package static let liveRecordCountOffset = 20
    package static let classOffset = 24
    /// 1 once the chunk has its blocks, as far as that is known.
    package static let blocksOffset = 28
    /// Unix seconds.
    package static let latestExpiryOffset = 32
    package static let openingSequenceOffset = 40
    /// Unix seconds; 0 if nothing is known.
    package static let earliestExpiryOffset = 48
    /// Unix seconds; 0 if nothing is known.
    package static let oldestUpdateOffset = 56
  }
}

// MARK: - Dead sectors

extension PackLayout {
  /// A chunk has a dead sector for each quarter, which holds the quarter's salt and a bit for each of its cells.
  package static let quarterCount = 4
  package static let quarterByteCount = chunkByteCount / quarterCount
  package static let deadSectorByteCount = 512
  /// At most one record begins in a cell, because no record is shorter.
  package static let cellByteCount = 64
  package static let cellsPerQuarter = quarterByteCount / cellByteCount
  /// In all chunks of a pack.
  package static let mostRecords = chunkCount * quarterCount * cellsPerQuarter

  /// The offset of a dead sector in the file. Its first word holds the salt, the other 63 words the bits of the cells.
  package static func deadSectorOffset(ofChunk chunk: Int, quarter: Int) -> Int {
    deadSectorsOffset + (chunk * quarterCount + quarter) * deadSectorByteCount
  }

  /// The first word of a dead sector with this salt.
  package static func saltWord(of salt: UInt32) -> UInt64 { UInt64(~salt) << 32 | UInt64(salt) }

  /// The salt in the first word of a dead sector; nil if the word has none, as that of a sector never written.
  package static func salt(in word: UInt64) -> UInt32? {
    let salt = UInt32(truncatingIfNeeded: word)
    return saltWord(of: salt) == word ? salt : nil
  }
}

// MARK: - Records

extension PackLayout {
  /// The header, which the name follows, the payload and the extension.
  package static let recordHeaderByteCount = 40
  package static let largestNameByteCount = 255
  package static let smallestRecordByteCount = cellByteCount
  package static let largestRecordByteCount = BlobStore.Packing.largestBound
  package static let recordAlignment = 8
  /// A header lies within one sector, so that the medium writes all of it or nothing.
  package static let sectorByteCount = 512

  /// The bytes a record takes in its chunk, its padding included; nil if it is too large for a pack.
  ///
  /// - Parameters:
  ///   - name: the bytes of its file name.
  ///   - payload: the bytes of its payload.
  ///   - tail: the bytes of its extension; 0 without one.
  package static func recordByteCount(name: Int, payload: Int, tail: Int) -> Int? {
    guard 1...largestNameByteCount ~= name, 0...largestRecordByteCount ~= payload, 0...largestRecordByteCount ~= tail
    else { return nil }
    let sum = recordHeaderByteCount + name + payload + tail
    return sum <= largestRecordByteCount ? max(sum, smallestRecordByteCount) : nil
  }

  /// The first offset in a chunk at which a record may begin that takes so many bytes; nil if none is left.
  ///
  /// - Parameters:
  ///   - end: the bytes of the chunk that are taken.
  ///   - byteCount: the bytes of the record, its padding included.
  package static func place(after end: Int, byteCount: Int) -> Int? {
    guard 0...chunkByteCount ~= end else { return nil }
    let offset = firstPlace(from: end)
    return byteCount <= chunkByteCount - offset ? offset : nil
  }

  /// The first offset from this one on that is a multiple of 8 and leaves the header within one sector.
  static func firstPlace(from offset: Int) -> Int {
    let aligned = (offset + recordAlignment - 1) & ~(recordAlignment - 1)
    return isPlace(aligned) ? aligned : (aligned | (sectorByteCount - 1)) + 1
  }

  /// Whether a header may begin at this offset of a chunk, as far as sectors and alignment go.
  static func isPlace(_ offset: Int) -> Bool {
    offset & (recordAlignment - 1) == 0
      && offset & (sectorByteCount - 1) <= sectorByteCount - recordHeaderByteCount
  }
}

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
