package import BlobRecord

/// Where things lie in the index of the packs: Spec/PackFormat.md.
package enum IndexLayout {
  /// The bytes `BLOBINDX` as a little-endian integer.
  package static let magic: UInt64 = 0x5844_4E49_424F_4C42
  package static let version: UInt64 = 1

  package static let versionOffset = 8
  /// Random, below 2^63, and not 0: it tells this index from the one after it.
  package static let numberOffset = 16
  package static let bucketCountOffset = 24
  package static let seedOffset = 32
  /// Sixteen bytes: the boot of the system under which the index was last believed.
  package static let bootOffset = 40
  /// How many entries are in use: a hint.
  package static let entriesInUseOffset = 64
  package static let headerByteCount = 4096

  // A bucket is a cache line: five entries, the time of the last use of each, and the overflow word.
  package static let bucketByteCount = 64
  package static let entriesPerBucket = 5
  package static let timesOffset = 40
  /// 1 once an insertion had to go on to the next bucket.
  package static let overflowOffset = 60
  /// How many buckets a search looks at, its own included.
  package static let longestSearch = 64

  package static func bucketOffset(_ bucket: Int) -> Int { headerByteCount + bucket * bucketByteCount }
  package static func byteCount(ofBuckets count: Int) -> Int { bucketOffset(count) }

  /// Unix seconds at which the times of use begin: 2020-09-13, so that 32 bits last until 2156.
  static let firstUse: Int64 = 1_600_000_000

  /// A time of use as the index keeps it: the nearest one it can say.
  package static func time(of use: UnixTime) -> UInt32 {
    let (seconds, overflows) = use.seconds.subtractingReportingOverflow(firstUse)
    return overflows ? 0 : UInt32(clamping: seconds)
  }

  package static func use(at time: UInt32) -> UnixTime { UnixTime(seconds: firstUse + Int64(time)) }
}

/// One entry of the index: a tag of the name's hash, the record's size and its address in one word.
///
/// One word, because a compare-and-swap publishes a record. The tag only makes it likely that the name fits.
package struct IndexEntry: RawRepresentable, Hashable, Sendable {
  package let rawValue: UInt64

  package init(rawValue: UInt64) { self.rawValue = rawValue }

  /// No record is so small that its entry is 0.
  package static let empty = IndexEntry(rawValue: 0)

  package static let sizeUnit = 16
  private static let sizeBitCount: UInt64 = 11
  private static let tagShift = PackAddress.bitCount + sizeBitCount

  /// - Parameters:
  ///   - tag: of the name's hash (`IndexHash`).
  ///   - byteCount: what the record takes in its chunk: 64 to 32,752.
  ///   - address: where it begins.
  package init(tag: UInt16, byteCount: Int, address: PackAddress) {
    assert(PackLayout.smallestRecordByteCount...PackLayout.largestRecordByteCount ~= byteCount)
    let size = UInt64(truncatingIfNeeded: (byteCount + Self.sizeUnit - 1) / Self.sizeUnit)
    rawValue = UInt64(tag) << Self.tagShift | size << PackAddress.bitCount | address.rawValue
  }

  package var isEmpty: Bool { rawValue == 0 }
  package var tag: UInt16 { UInt16(truncatingIfNeeded: rawValue >> Self.tagShift) }
  package var address: PackAddress { PackAddress(rawValue: rawValue) }

  /// The record's bytes, rounded up to a multiple of 16.
  package var byteCount: Int {
    Int(truncatingIfNeeded: rawValue >> PackAddress.bitCount & (1 << Self.sizeBitCount - 1)) * Self.sizeUnit
  }

  /// How many bytes from the address on have the whole record in them: `byteCount`, as far as the chunk goes.
  ///
  /// 0 at an address where no record can lie, so a nonsensical entry reads nothing.
  package var readByteCount: Int { address.canHoldRecord ? min(byteCount, address.byteCountToChunkEnd) : 0 }
}

/// The hash by which the index finds a name: where its entry may lie, and its tag.
///
/// The seed is the index's own, so keys that meet in one bucket of one cache do not in another.
package struct IndexHash: Hashable, Sendable {
  private let value: UInt64

  /// - Parameters:
  ///   - digest: of the file name (`NameDigest`).
  ///   - seed: of the index.
  package init(digest: UInt64, seed: UInt64) {
    // Variant 13 of D. Stafford, "Better Bit Mixing", which SplitMix64 ends with: FNV's high bits tell names badly apart.
    var mixed = digest ^ seed
    mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
    value = mixed ^ mixed >> 31
  }

  /// The low bits, while the bucket is made of the high ones: entries of one bucket differ in their tags.
  package var tag: UInt16 { UInt16(truncatingIfNeeded: value) }

  /// The bucket at which a search for the name begins: below `count`.
  package func bucket(of count: UInt64) -> UInt64 { value.multipliedFullWidth(by: count).high }
}
