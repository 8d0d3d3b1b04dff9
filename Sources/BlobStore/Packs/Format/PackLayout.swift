/// The layout of a pack file, and the offsets at which a record may begin: Spec/PackFormat.md.
package enum PackLayout {
  /// The bytes `BLOBPACK` as a little-endian integer.
  package static let magic: UInt64 = 0x4B43_4150_424F_4C42
  package static let version: UInt64 = 1

  package static let packCount = 1024
  package static let chunkCount = 1024
  /// 252 pages of 4 KiB.
  package static let chunkByteCount = 1_032_192

  // The head of the file: its own fields, the CRC of the preceding 60 bytes, the chunk table and the dead sectors.
  package static let versionOffset = 8
  package static let numberOffset = 16
  package static let chunkCountOffset = 24
  package static let chunkByteCountOffset = 32
  /// A random number that distinguishes the pack from a later one with the same number.
  package static let identifierOffset = 40
  package static let crcOffset = 60
  package static let headerByteCount = 64

  package static let tableOffset = 4096
  package static let tableEntryByteCount = 64
  package static let deadSectorsOffset = tableOffset + chunkCount * tableEntryByteCount
  package static let chunksOffset = deadSectorsOffset + chunkCount * quarterCount * deadSectorByteCount

  package static func tableEntryOffset(ofChunk chunk: Int) -> Int { tableOffset + chunk * tableEntryByteCount }
  package static func fileOffset(ofChunk chunk: Int) -> Int { chunksOffset + chunk * chunkByteCount }
}

// MARK: - The chunk table

extension PackLayout {
  package enum TableEntry {
    /// The chunk's state in the low 8 bits, and its owner's token in the others.
    package static let stateOffset = 0
    /// The number of reserved records that are not yet published.
    package static let inFlightOffset = 8
    package static let liveByteCountOffset = 16
    package static let liveRecordCountOffset = 20
    package static let classOffset = 24
    /// 1 if blocks are known to be allocated for the chunk.
    package static let blocksOffset = 28
    /// In Unix seconds.
    package static let latestExpiryOffset = 32
    package static let openingSequenceOffset = 40
    /// In Unix seconds, or 0 if unknown.
    package static let earliestExpiryOffset = 48
    /// In Unix seconds, or 0 if unknown.
    package static let oldestUpdateOffset = 56
  }
}

// MARK: - Dead sectors

extension PackLayout {
  /// Each quarter of a chunk has a dead sector, which contains the quarter's salt and a bit for each of its cells.
  package static let quarterCount = 4
  package static let quarterByteCount = chunkByteCount / quarterCount
  package static let deadSectorByteCount = 512
  /// At most one record begins in a cell, because no record is shorter.
  package static let cellByteCount = 64
  package static let cellsPerQuarter = quarterByteCount / cellByteCount
  /// The maximum number of records in a pack.
  package static let mostRecords = chunkCount * quarterCount * cellsPerQuarter

  /// The offset of a dead sector in the file: one word for the salt, and 63 words for the bits of the cells.
  package static func deadSectorOffset(ofChunk chunk: Int, quarter: Int) -> Int {
    deadSectorsOffset + (chunk * quarterCount + quarter) * deadSectorByteCount
  }

  package static func saltWord(of salt: UInt32) -> UInt64 { UInt64(~salt) << 32 | UInt64(salt) }

  /// Returns the salt in the first word of a dead sector, or `nil` if the word is invalid, as in an unwritten sector.
  package static func salt(in word: UInt64) -> UInt32? {
    let salt = UInt32(truncatingIfNeeded: word)
    return saltWord(of: salt) == word ? salt : nil
  }
}

// MARK: - Records

extension PackLayout {
  /// The size of the header, which is followed by the name, the payload and the extension.
  package static let recordHeaderByteCount = 40
  package static let largestNameByteCount = 255
  package static let smallestRecordByteCount = cellByteCount
  package static let largestRecordByteCount = BlobStore.Packing.largestBound
  package static let recordAlignment = 8
  /// The sector size. A header does not cross a sector, so that the medium writes it completely or not at all.
  package static let sectorByteCount = 512

  /// Returns the size of a record in its chunk, including its padding, or `nil` if it is too large for a pack.
  ///
  /// The parameters are the sizes of its file name, payload and extension in bytes.
  package static func recordByteCount(name: Int, payload: Int, tail: Int) -> Int? {
    guard 1...largestNameByteCount ~= name, 0...largestRecordByteCount ~= payload, 0...largestRecordByteCount ~= tail
    else { return nil }
    let sum = recordHeaderByteCount + name + payload + tail
    return sum <= largestRecordByteCount ? max(sum, smallestRecordByteCount) : nil
  }

  /// Returns the first offset after `end` at which a record of a size may begin, or `nil` if the chunk has no space.
  package static func place(after end: Int, byteCount: Int) -> Int? {
    guard 0...chunkByteCount ~= end else { return nil }
    let offset = firstPlace(from: end)
    return byteCount <= chunkByteCount - offset ? offset : nil
  }

  /// Returns the first offset, from a given one, that is a multiple of 8 and at which a header fits into its sector.
  static func firstPlace(from offset: Int) -> Int {
    let aligned = (offset + recordAlignment - 1) & ~(recordAlignment - 1)
    return isPlace(aligned) ? aligned : (aligned | (sectorByteCount - 1)) + 1
  }

  static func isPlace(_ offset: Int) -> Bool {
    offset & (recordAlignment - 1) == 0
      && offset & (sectorByteCount - 1) <= sectorByteCount - recordHeaderByteCount
  }
}

/// The address of a record, in 37 bits: a pack, a chunk in it, and an offset in the chunk.
///
/// Any 37 bits form an address. A record may begin there only if `canHoldRecord` is `true`.
package struct PackAddress: RawRepresentable, Hashable, Sendable {
  /// The address as a number below 2^37.
  package let rawValue: UInt64

  package static let bitCount: UInt64 = 37
  private static let mask: UInt64 = 1 << bitCount - 1
  private static let offsetBitCount: UInt64 = 17
  private static let chunkBitCount: UInt64 = 10

  /// - Parameter rawValue: The address, of which bits from the 38th on are ignored.
  package init(rawValue: UInt64) { self.rawValue = rawValue & Self.mask }

  /// - Parameter offset: The offset in the chunk in bytes, which is a multiple of 8.
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

  /// The offset in the chunk in bytes, which may exceed the chunk for an arbitrary address.
  package var offset: Int {
    Int(truncatingIfNeeded: rawValue & (1 << Self.offsetBitCount - 1)) * PackLayout.recordAlignment
  }

  package var chunkStart: PackAddress { PackAddress(pack: pack, chunk: chunk, offset: 0) }

  package var fileOffset: Int { PackLayout.fileOffset(ofChunk: chunk) + offset }

  /// A Boolean value that indicates whether a record may begin here: within a sector, and before the chunk ends.
  package var canHoldRecord: Bool {
    PackLayout.isPlace(offset) && offset <= PackLayout.chunkByteCount - PackLayout.smallestRecordByteCount
  }

  /// The number of bytes up to the end of the chunk, or 0 at an address beyond it.
  package var byteCountToChunkEnd: Int { max(0, PackLayout.chunkByteCount - offset) }
}

// MARK: - Salt and dead bit

extension PackAddress {
  /// The quarter of the chunk, 0 to 3 for a valid address, whose dead sector contains the record's salt.
  package var quarter: Int { offset / PackLayout.quarterByteCount }

  /// The cell of the quarter, 0 to 4031, whose bit marks the record as dead.
  package var cell: Int { offset % PackLayout.quarterByteCount / PackLayout.cellByteCount }

  package var saltWordOffset: Int { PackLayout.deadSectorOffset(ofChunk: chunk, quarter: quarter) }

  /// The offset in the file of the 64-bit word that contains the cell's bit.
  package var deadWordOffset: Int { saltWordOffset + 8 + cell / 64 * 8 }

  package var deadBit: UInt64 { 1 << UInt64(truncatingIfNeeded: cell % 64) }
}

/// The state of a chunk and the session that owns it, in one word.
struct ChunkState: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt64

  enum Kind: UInt64, CaseIterable, Sendable {
    /// No record in the chunk is valid.
    case free = 0
    /// The owner stores records in the chunk.
    case open = 1
    /// The chunk accepts no more records.
    case sealed = 2
    /// A collection moves the live records of the chunk.
    case collecting = 3
  }

  init(rawValue: UInt64) { self.rawValue = rawValue }

  /// - Parameter owner: The token of a session, of 56 bits, or 0.
  init(_ kind: Kind, owner: UInt64) {
    assert(owner >> 56 == 0)
    rawValue = owner << 8 | kind.rawValue
  }

  static let free = ChunkState(.free, owner: 0)

  /// The kind, or `nil` for a number that no version writes. Such a chunk is left unchanged.
  var kind: Kind? { Kind(rawValue: rawValue & 0xFF) }

  var owner: UInt64 { rawValue >> 8 }

  func with(_ kind: Kind) -> ChunkState { ChunkState(kind, owner: owner) }
}

/// A class of records that share chunks because they expire together. Classes 0 to 6 depend on the time to live.
struct ChunkClass: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt32

  init(rawValue: UInt32) { self.rawValue = rawValue }

  static let survivors = ChunkClass(rawValue: 7)
  /// Records that are locked, or were stored with a barrier or a full sync. Their headers may be written in place.
  static let durable = ChunkClass(rawValue: 8)
  static let count = 9
}
