import BlobRecord
import Testing

@testable import BlobStore

@Suite struct IndexEntryTests {
  @Test(arguments: [64, 65, 80, 81, 8192, 32_737, 32_752], [0, 1, .max] as [UInt16])
  func partsComeBack(byteCount: Int, tag: UInt16) {
    let address = PackAddress(pack: 1023, chunk: 1, offset: 4096)
    let entry = IndexEntry(tag: tag, byteCount: byteCount, address: address)
    #expect(entry.tag == tag && entry.address == address && !entry.isEmpty)
    #expect(entry.byteCount == (byteCount + 15) / 16 * 16)
    #expect(entry.readByteCount == entry.byteCount)
    #expect(IndexEntry(rawValue: entry.rawValue) == entry)
  }

  /// The bits of the word: 16 for the tag, 11 for the size, 10 for the pack, 10 for the chunk, and 17 for the offset.
  @Test func theWordIsThatOfTheSpecification() {
    let entry = IndexEntry(tag: 0xABCD, byteCount: 208, address: PackAddress(pack: 3, chunk: 5, offset: 512))
    #expect(entry.rawValue == UInt64(0xABCD) << 48 | 13 << 37 | 3 << 27 | 5 << 17 | 64)
    #expect(IndexEntry.empty.isEmpty)
  }

  @Test func theFirstPlaceOfAllIsNotEmpty() {
    #expect(!IndexEntry(tag: 0, byteCount: 64, address: PackAddress(pack: 0, chunk: 0, offset: 0)).isEmpty)
  }

  /// The size is rounded up, but a read does not extend into the next chunk.
  @Test func theLastRecordIsReadToTheEndOfItsChunk() {
    let address = PackAddress(pack: 0, chunk: 0, offset: PackLayout.chunkByteCount - 72)
    #expect(IndexEntry(tag: 1, byteCount: 72, address: address).readByteCount == 72)
  }

  @Test func anEntryWhereNoRecordCanLieReadsNothing() {
    let behind = PackAddress(rawValue: 131_071)
    #expect(IndexEntry(tag: 1, byteCount: 64, address: behind).readByteCount == 0)
    #expect(IndexEntry(tag: 1, byteCount: 64, address: PackAddress(rawValue: 61)).readByteCount == 0)
  }

  // MARK: Buckets

  @Test(arguments: [1, 2, 3, 13_108, 1 << 40] as [UInt64]) func everyNameHasABucket(count: UInt64) {
    var fullest: [UInt64: Int] = [:]
    for number in 0..<1000 {
      let digest = NameDigest.digest(ofFileName: "album/\(number)")
      let bucket = IndexHash(digest: digest, seed: 7).bucket(of: count)
      #expect(bucket < count)
      fullest[bucket, default: 0] += 1
    }
    // A thousand similar names are distributed: with 13,108 buckets, more than six names in one are very unlikely.
    if count >= 13_108 { #expect(fullest.values.allSatisfy { $0 <= 6 }) }
  }

  /// A value computed in Python: the finalizer of SplitMix64 of 0xCBF29CE484222325 ^ 0x0123456789ABCDEF.
  @Test func theHashIsThatOfTheSpecification() {
    let hash = IndexHash(digest: 0xCBF2_9CE4_8422_2325, seed: 0x0123_4567_89AB_CDEF)
    #expect(hash.bucket(of: 1 << 32) == 0xA650_B894)
    #expect(hash.tag == 0xF4A0)
  }

  @Test func anotherSeedPutsNamesElsewhere() {
    let digests = (0..<100).map { NameDigest.digest(ofFileName: "album/\($0)") }
    let (first, second) = (
      digests.map { IndexHash(digest: $0, seed: 1).bucket(of: 1 << 20) },
      digests.map { IndexHash(digest: $0, seed: 2).bucket(of: 1 << 20) }
    )
    #expect(zip(first, second).allSatisfy { $0 != $1 })
  }

  // MARK: Times of use

  @Test(
    arguments: [
      (1_600_000_000, 0), (1_600_000_001, 1), (1_599_999_999, 0), (5_894_967_295, .max), (5_894_967_296, .max),
      (.max, .max), (.min, 0), (0, 0),
    ] as [(Int64, UInt32)])
  func timesAreHeldAtTheEnds(seconds: Int64, time: UInt32) {
    #expect(IndexLayout.time(of: UnixTime(seconds: seconds)) == time)
    if (1_600_000_000...5_894_967_295).contains(seconds) { #expect(IndexLayout.use(at: time).seconds == seconds) }
  }
}
