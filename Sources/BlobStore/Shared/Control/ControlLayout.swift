/// The layout of the control file (Spec/ControlFile.md). Each change of it needs a new version and a new file.
package enum ControlLayout {
  /// The bytes `BLOBCTL` and a zero, as a little-endian integer.
  package static let magic: UInt64 = 0x004C_5443_424F_4C42
  package static let version: UInt64 = 5

  package static let magicOffset = 0
  package static let versionOffset = 8
  /// The random, even base that is added to each generation.
  package static let generationBaseOffset = 16

  /// Two random words that are reserved for a placement of names that nobody can predict.
  package static let secretOffset = 24

  // The hint: whether it is set; default expiration in seconds; size limit in bytes, or 0; naming; arrangement.
  package static let hintOffsets = [64, 72, 80, 88, 96]

  // The content of the directory, which every change counts.
  package static let countersAreKnownOffset = 128
  /// The offsets of a counter, and of the sum of all additions to it.
  package struct Counter: Sendable {
    package let present: Int
    package let added: Int

    package static let records = Counter(present: 136, added: 424)
    package static let bytes = Counter(present: 144, added: 432)
    package static let lockedRecords = Counter(present: 152, added: 440)
    package static let lockedBytes = Counter(present: 160, added: 448)
  }

  // The totals of collections since the file was created.
  package static let passesOffset = 192
  package static let evictionsOffset = 200
  package static let expiredOffset = 208
  package static let evictedOffset = 216
  package static let damagedOffset = 224
  package static let temporaryOffset = 232
  package static let bytesFreedOffset = 240
  package static let millisecondsOffset = 248

  // The last collection, the last full examination, and the running collection.
  package static let lastPassTimeOffset = 256
  package static let lastPassProcessOffset = 264
  package static let lastPassMillisecondsOffset = 272
  package static let lastWholePassTimeOffset = 280
  package static let collectorProcessOffset = 288
  /// The position of an interrupted collection: the digest of a name at the root.
  package static let nextNameOffset = 296

  package static let recycledFilesOffset = 304
  package static let recycledBytesOffset = 312

  package static let durableChangesOffset = 320

  /// The number of changes in progress of headers with which a record may expire earlier than before.
  package static let headerChangesOffset = 328

  // The sum of started and ended wipes.
  package static let wipesOffset = 336

  /// The random number of the newest file of uses, or 0.
  package static let usesNumberOffset = 344

  // The time since which loads and stores are counted, in the blocks of sums at `trafficOffset`.
  package static let countedSinceOffset = 352
  // The evictions by cause, the sum of the ages of evicted records in seconds, and the number of these records.
  package static let evictedForOffsets = [360, 368, 376, 384]
  package static let evictedAgeOffset = 392
  package static let evictedAgedOffset = 400

  // The inode of the subdirectory in which a collection was interrupted, and the offset in its listing.
  package static let nextInodeOffset = 408
  package static let nextOffsetOffset = 416

  /// The places of records in an `adaptive` directory (`RecordPlaces`).
  package static let placesOffset = 456

  // The number of the index in force, or 0, the last sequence of a record, and the growing index, or 0.
  package static let packIndexOffset = 512
  package static let packSequenceOffset = 520
  package static let growingIndexOffset = 528

  /// The sums of the requests to a remote tier, by kind.
  package static let remoteTrafficOffset = 960

  package static let trafficOffset = 1024
  /// Each block is a cache line. Keys are spread over the blocks, so that processors rarely contend for one.
  package static let trafficBlockCount = 16
  package static let trafficBlockByteCount = 64

  /// A ring of the sums at the end of the last collections. Collection *n* has the index *n* modulo the count.
  package static let passesNotedOffset = 2048
  package static let passCount = 16
  package static let passByteCount = 64

  /// The start of the generations, which is the start of a page.
  package static let generationsOffset = 4096
  /// A multiple of the number of stripes, so that keys with the same generation share a stripe. After 100,000 changes
  /// of other keys, nine of ten blobs in memory are still valid.
  package static let generationCount = 1 << 20

  /// The marks of subdirectories, in sets of slots.
  package static let marksOffset = generationsOffset + generationCount * 4
  package static let markByteCount = 64
  package static let marksPerSet = 4
  package static let markCount = 4096

  /// A slot for each process that has the file open to change records.
  package static let sessionsOffset = marksOffset + markCount * markByteCount
  package static let sessionByteCount = 64
  package static let sessionCount = 1024

  package static func sessionTokenOffset(_ number: Int) -> Int { sessionsOffset + number * sessionByteCount }

  package static func sessionProcessOffset(_ number: Int) -> Int { sessionTokenOffset(number) + 8 }

  /// Returns the slot of a token, which is any word with the slot's number in its lowest bits.
  package static func sessionNumber(of token: UInt64) -> Int { Int(token % UInt64(sessionCount)) }

  /// Returns a random token for a slot, never 0 and never repeated. It has 56 bits, to leave room in a word.
  package static func newToken(for number: Int) -> UInt64 {
    .random(in: 1..<1 << 46) * UInt64(sessionCount) + UInt64(number)
  }

  /// The holder of each stripe, and room for the intents of a change of a packed record.
  package static let stripesOffset = sessionsOffset + sessionCount * sessionByteCount
  package static let stripeByteCount = 32

  package static let byteCount = stripesOffset + stripeCount * stripeByteCount

  /// The words of a stripe after its holder's: the address to write, and the address to replace or remove.
  package enum IntentWord: Int, Sendable {
    case new = 8
    case old = 16
  }

  package static func intentOffset(_ word: IntentWord, of stripe: Int) -> Int {
    stripeOffset(stripe) + word.rawValue
  }

  package static let stripeCount = 4096

  /// The bytes that are locked regardless of their content: one for each stripe, and one for the collector.
  package static let stripeBytes: Range<Int64> = 0..<Int64(stripeCount)
  package static let collectorByte = Int64(stripeCount)

  /// The byte that a process locks to create a new or larger index of the packs.
  package static let packByte = collectorByte + 1..<collectorByte + 2

  /// The byte that a process locks to allocate a page by writing zeros, where the system cannot allocate ranges.
  package static let fillingByte = collectorByte + 2..<collectorByte + 3

  package static let lockedBytes = stripeBytes.lowerBound..<(collectorByte + 1)

  /// The first of the bytes that indicate, if locked, that the process of a session is alive.
  package static let sessionByteOffset: Int64 = 16384

  package static func sessionByte(_ number: Int) -> Range<Int64> {
    let byte = sessionByteOffset + Int64(number)
    return byte..<(byte + 1)
  }

  package static func stripe(of digest: UInt64) -> Int { Int(digest % UInt64(stripeCount)) }

  /// The first of the bytes that processes lock to produce a missing blob, one for each stripe.
  package static let productionOffset: Int64 = 8192

  package static func productionByte(of digest: UInt64) -> Range<Int64> {
    let byte = productionOffset + Int64(digest % UInt64(stripeCount))
    return byte..<(byte + 1)
  }

  package static func stripeByte(of digest: UInt64) -> Range<Int64> {
    let byte = Int64(stripe(of: digest))
    return byte..<(byte + 1)
  }

  /// A word of a stripe that is 1 if the stripe was the first of its page, so that a copy keeps the page allocated.
  package static func firstStripeOffset(_ stripe: Int) -> Int { stripeOffset(stripe) + 24 }

  package static func stripeOffset(_ stripe: Int) -> Int { stripesOffset + stripe * stripeByteCount }

  package static func generationOffset(of digest: UInt64) -> Int {
    generationsOffset + Int(digest % UInt64(generationCount)) * 4
  }
}
