internal import BlobRecord

/// The layout of a checkpoint of the packs: Spec/PackFormat.md.
package enum CheckpointLayout {
  /// The bytes `BLOBCKPT` as a little-endian integer.
  package static let magic: UInt64 = 0x5450_4B43_424F_4C42
  package static let version: UInt64 = 1

  package static let versionOffset = 8
  /// An upper bound of the sequences in the checkpoint.
  package static let sequenceOffset = 16
  /// The seed of the index that was copied.
  package static let seedOffset = 24
  package static let bucketCountOffset = 32
  /// The number of packs in the table of covered chunks.
  package static let packCountOffset = 40
  /// The CRC-32 of all buckets.
  package static let bucketsCRCOffset = 56
  /// The CRC-32 of the preceding 60 bytes.
  package static let crcOffset = 60
  package static let headerFieldsByteCount = 64
  package static let headerByteCount = 4096

  /// The size of a chunk's four salts in the table of covered chunks, which are zeros for other chunks.
  package static let coverByteCount = 4 * PackLayout.quarterCount

  package static func coverOffset(pack: Int, chunk: Int) -> Int {
    headerByteCount + (pack * PackLayout.chunkCount + chunk) * coverByteCount
  }

  package static func bucketsOffset(packs: Int) -> Int { coverOffset(pack: packs, chunk: 0) }

  package static func byteCount(packs: Int, buckets: Int) -> Int {
    bucketsOffset(packs: packs) + buckets * IndexLayout.bucketByteCount
  }
}

package struct CheckpointHeader: Hashable, Sendable {
  /// An upper bound of the sequences in the checkpoint.
  package let sequence: UInt64
  package let seed: UInt64
  package let bucketCount: Int
  package let packCount: Int
  package let bucketsCRC: UInt32

  package init(sequence: UInt64, seed: UInt64, bucketCount: Int, packCount: Int, bucketsCRC: UInt32) {
    self.sequence = sequence
    self.seed = seed
    self.bucketCount = bucketCount
    self.packCount = packCount
    self.bucketsCRC = bucketsCRC
  }

  /// Returns `nil` unless the bytes begin with a header of this version.
  package init?(decoding bytes: RawSpan) {
    guard bytes.byteCount >= CheckpointLayout.headerFieldsByteCount,
      Self.word(of: bytes, at: 0) == CheckpointLayout.magic,
      Self.word(of: bytes, at: CheckpointLayout.versionOffset) == CheckpointLayout.version,
      Self.word(of: bytes, at: CheckpointLayout.bucketsCRCOffset) >> 32 == UInt64(Self.crc(of: bytes)),
      let packs = Int(exactly: Self.word(of: bytes, at: CheckpointLayout.packCountOffset)),
      1...PackLayout.packCount ~= packs,
      let buckets = Int(exactly: Self.word(of: bytes, at: CheckpointLayout.bucketCountOffset)),
      // An index never has more buckets than the packs can contain records.
      1...packs * PackLayout.mostRecords ~= buckets,
      Self.word(of: bytes, at: CheckpointLayout.sequenceOffset) <= PackedHeader.sequenceMask >> 1
    else { return nil }
    sequence = Self.word(of: bytes, at: CheckpointLayout.sequenceOffset)
    seed = Self.word(of: bytes, at: CheckpointLayout.seedOffset)
    bucketCount = buckets
    packCount = packs
    bucketsCRC = UInt32(truncatingIfNeeded: Self.word(of: bytes, at: CheckpointLayout.bucketsCRCOffset))
  }

  package var encoded: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: CheckpointLayout.headerByteCount)
    func set(_ word: UInt64, at offset: Int) {
      for index in 0..<8 { bytes[offset + index] = UInt8(truncatingIfNeeded: word >> UInt64(8 * index)) }
    }
    set(CheckpointLayout.magic, at: 0)
    set(CheckpointLayout.version, at: CheckpointLayout.versionOffset)
    set(sequence, at: CheckpointLayout.sequenceOffset)
    set(seed, at: CheckpointLayout.seedOffset)
    set(UInt64(bucketCount), at: CheckpointLayout.bucketCountOffset)
    set(UInt64(packCount), at: CheckpointLayout.packCountOffset)
    set(UInt64(bucketsCRC), at: CheckpointLayout.bucketsCRCOffset)
    let crc = Self.crc(of: unsafe bytes.span.bytes)
    set(UInt64(crc) << 32 | UInt64(bucketsCRC), at: CheckpointLayout.bucketsCRCOffset)
    return bytes
  }

  package var fileByteCount: Int { CheckpointLayout.byteCount(packs: packCount, buckets: bucketCount) }

  private static func word(of bytes: RawSpan, at offset: Int) -> UInt64 {
    UInt64(littleEndian: unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self))
  }

  private static func crc(of bytes: RawSpan) -> UInt32 {
    CRC32.checksum(of: bytes.extracting(first: CheckpointLayout.crcOffset))
  }
}
