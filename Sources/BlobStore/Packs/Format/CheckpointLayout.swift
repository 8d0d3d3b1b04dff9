/// Where things lie in a checkpoint of the packs: Spec/PackFormat.md.
package enum CheckpointLayout {
  /// The bytes `BLOBCKPT` as a little-endian integer.
  package static let magic: UInt64 = 0x5450_4B43_424F_4C42
  package static let version: UInt64 = 1

  package static let versionOffset = 8
  /// No record that the checkpoint knows has a higher one.
  package static let sequenceOffset = 16
  /// Of the index that was copied.
  package static let seedOffset = 24
  package static let bucketCountOffset = 32
  /// The packs whose chunks have a place in the table.
  package static let packCountOffset = 40
  /// The CRC-32 of all buckets.
  package static let bucketsCRCOffset = 56
  /// The CRC-32 of the 60 bytes before it.
  package static let crcOffset = 60
  package static let headerFieldsByteCount = 64
  package static let headerByteCount = 4096

  /// Four salts for each chunk that is covered, and zeros for any other.
  package static let coverByteCount = 4 * PackLayout.quarterCount

  package static func coverOffset(pack: Int, chunk: Int) -> Int {
    headerByteCount + (pack * PackLayout.chunkCount + chunk) * coverByteCount
  }

  /// The buckets lie there as in the index.
  package static func bucketsOffset(packs: Int) -> Int { coverOffset(pack: packs, chunk: 0) }

  package static func byteCount(packs: Int, buckets: Int) -> Int {
    bucketsOffset(packs: packs) + buckets * IndexLayout.bucketByteCount
  }
}
