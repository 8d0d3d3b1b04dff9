package import BlobRecord

/// The layout of the index of the packs: Spec/PackFormat.md.
package enum IndexLayout {
  /// The bytes `BLOBINDX` as a little-endian integer.
  package static let magic: UInt64 = 0x5844_4E49_424F_4C42
  package static let version: UInt64 = 1

  package static let versionOffset = 8
  /// A random number from 1 to 2^63 - 1 that identifies the index.
  package static let numberOffset = 16
  package static let bucketCountOffset = 24
  package static let seedOffset = 32
  /// The boot under which the index is valid, in sixteen bytes.
  package static let bootOffset = 40
  /// The number of entries in use, which is a hint.
  package static let entriesInUseOffset = 64
  package static let headerByteCount = 4096

  // A bucket is a cache line: five entries, the time of the last use of each, and the overflow word.
  package static let bucketByteCount = 64
  package static let entriesPerBucket = 5
  package static let timesOffset = 40
  /// The overflow word: 1 once an insertion has continued with the next bucket.
  package static let overflowOffset = 60
  /// The maximum number of buckets that a search visits.
  package static let longestSearch = 64

  package static func bucketOffset(_ bucket: Int) -> Int { headerByteCount + bucket * bucketByteCount }
  package static func byteCount(ofBuckets count: Int) -> Int { bucketOffset(count) }

  /// The Unix time at which times of use begin: 2020-09-13, so that 32 bits last until 2156.
  static let firstUse: Int64 = 1_600_000_000

  /// Returns a time of use in the unit of the index, limited to its range.
  package static func time(of use: UnixTime) -> UInt32 {
    let (seconds, overflows) = use.seconds.subtractingReportingOverflow(firstUse)
    return overflows ? 0 : UInt32(clamping: seconds)
  }

  package static func use(at time: UInt32) -> UnixTime { UnixTime(seconds: firstUse + Int64(time)) }
}

/// An entry of the index: a tag of the name's hash, the record's size and its address.
///
/// An entry is one word, so that a compare-and-swap can publish a record. Equal tags only make equal names likely.
package struct IndexEntry: RawRepresentable, Hashable, Sendable {
  package let rawValue: UInt64

  package init(rawValue: UInt64) { self.rawValue = rawValue }

  /// The empty entry, which no record has because its size is never 0.
  package static let empty = IndexEntry(rawValue: 0)

  package static let sizeUnit = 16
  private static let sizeBitCount: UInt64 = 11
  private static let tagShift = PackAddress.bitCount + sizeBitCount

  /// - Parameter byteCount: The size of the record in its chunk: 64 to 32,752.
  package init(tag: UInt16, byteCount: Int, address: PackAddress) {
    assert(PackLayout.smallestRecordByteCount...PackLayout.largestRecordByteCount ~= byteCount)
    let size = UInt64(truncatingIfNeeded: (byteCount + Self.sizeUnit - 1) / Self.sizeUnit)
    rawValue = UInt64(tag) << Self.tagShift | size << PackAddress.bitCount | address.rawValue
  }

  package var isEmpty: Bool { rawValue == 0 }
  package var tag: UInt16 { UInt16(truncatingIfNeeded: rawValue >> Self.tagShift) }
  package var address: PackAddress { PackAddress(rawValue: rawValue) }

  /// The record's size, rounded up to a multiple of 16.
  package var byteCount: Int {
    Int(truncatingIfNeeded: rawValue >> PackAddress.bitCount & (1 << Self.sizeBitCount - 1)) * Self.sizeUnit
  }

  /// The number of bytes to read for the whole record, or 0 at an address that cannot contain one.
  package var readByteCount: Int { address.canHoldRecord ? min(byteCount, address.byteCountToChunkEnd) : 0 }
}

/// The hash of a name in an index, which determines its first bucket and its tag.
///
/// Each index has its own seed, so keys that collide in one cache do not collide in another.
package struct IndexHash: Hashable, Sendable {
  private let value: UInt64

  package init(digest: UInt64, seed: UInt64) {
    // Variant 13 of D. Stafford, "Better Bit Mixing", as in SplitMix64, because FNV's high bits are poorly mixed.
    var mixed = digest ^ seed
    mixed = (mixed ^ mixed >> 30) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ mixed >> 27) &* 0x94D0_49BB_1331_11EB
    value = mixed ^ mixed >> 31
  }

  /// The low bits of the hash. The bucket depends on the high bits, so tags differ within a bucket.
  package var tag: UInt16 { UInt16(truncatingIfNeeded: value) }

  package func bucket(of count: UInt64) -> UInt64 { value.multipliedFullWidth(by: count).high }
}
