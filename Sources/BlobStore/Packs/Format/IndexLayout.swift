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
