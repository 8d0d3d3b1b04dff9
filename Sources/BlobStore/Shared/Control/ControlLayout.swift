/// Where things lie in the control file: Spec/ControlFile.md. A change of any of it is a new version, and a new file.
package enum ControlLayout {
  /// The bytes `BLOBCTL` and a zero, as a little-endian integer.
  package static let magic: UInt64 = 0x004C_5443_424F_4C42
  package static let version: UInt64 = 4

  package static let magicOffset = 0
  package static let versionOffset = 8
  /// The base that is added to each of the generations: random, and even.
  package static let generationBaseOffset = 16

  // The hint: how the last program that opened the directory for writing sees it.
  // Whether it is set; default expiration in seconds; size limit in bytes, 0 for none; naming; arrangement.
  package static let hintOffsets = [64, 72, 80, 88, 96]

  // The content of the directory, counted by every change.
  package static let countersAreKnownOffset = 128
  /// Where a counter lies, and all that was ever added to it.
  package struct Counter: Sendable {
    package let present: Int
    package let added: Int

    package static let records = Counter(present: 136, added: 424)
    package static let bytes = Counter(present: 144, added: 432)
    package static let lockedRecords = Counter(present: 152, added: 440)
    package static let lockedBytes = Counter(present: 160, added: 448)
  }

  // The work of collections since the file was made.
  package static let passesOffset = 192
  package static let evictionsOffset = 200
  package static let expiredOffset = 208
  package static let evictedOffset = 216
  package static let damagedOffset = 224
  package static let temporaryOffset = 232
  package static let bytesFreedOffset = 240
  package static let millisecondsOffset = 248

  // The last collection, the last one that looked at every file, and the one that is going on.
  package static let lastPassTimeOffset = 256
  package static let lastPassProcessOffset = 264
  package static let lastPassMillisecondsOffset = 272
  package static let lastWholePassTimeOffset = 280
  package static let collectorProcessOffset = 288
  /// Where a collection that was cut short goes on: the digest of a name at the root.
  package static let nextNameOffset = 296

  // The content of the recycling bin.
  package static let recycledFilesOffset = 304
  package static let recycledBytesOffset = 312

  // Changes with durability `barrier` or `full`.
  package static let durableChangesOffset = 320

  /// Changes of headers under way with which a record may expire earlier than before.
  package static let headerChangesOffset = 328

  // Wipes, twice each: as they begin and as they end.
  package static let wipesOffset = 336

  /// Which file of uses is the newest: random; 0 for none yet.
  package static let usesNumberOffset = 344

  // The loads and stores of the directory: since when they are counted, and blocks of sums, which are added up.
  package static let countedSinceOffset = 352
  // Before the traffic: what was evicted, by cause; how old that was, in seconds; and how many that is the sum of.
  package static let evictedForOffsets = [360, 368, 376, 384]
  package static let evictedAgeOffset = 392
  package static let evictedAgedOffset = 400

  // Where in a subdirectory a collection that was cut short goes on: which one it is, and how far its listing had come.
  package static let nextInodeOffset = 408
  package static let nextOffsetOffset = 416

  // The packs: the number of the index in force, 0 for none known, and the last sequence that was given to a record. Then
  // the index that is being filled, 0 for none.
  package static let packIndexOffset = 512
  package static let packSequenceOffset = 520
  package static let growingIndexOffset = 528

  /// What was asked of a tier that other machines share: a sum of each kind.
  package static let remoteTrafficOffset = 960

  package static let trafficOffset = 1024
  /// One of a cache line each: keys are spread over them, so that processors rarely meet.
  package static let trafficBlockCount = 16
  package static let trafficBlockByteCount = 64

  /// A ring of the sums at the end of the last collections: the one with number *n* is at the place *n* modulo the count.
  package static let passesNotedOffset = 2048
  package static let passCount = 16
  package static let passByteCount = 64

  /// A bit for each stripe: no record of it is a file.
  package static let stripesWithoutFilesOffset = 3072

  static func noFilesOffset(_ stripe: Int) -> Int { stripesWithoutFilesOffset + stripe / 64 * 8 }
  static func noFilesBit(_ stripe: Int) -> UInt64 { 1 << UInt64(stripe % 64) }

  /// Where the generations begin, on a page of their own.
  package static let generationsOffset = 4096
  /// A multiple of the stripes' number, so that keys with one generation share a stripe.
  ///
  /// So many that after 100,000 changes of other keys, nine of ten blobs in memory are still valid.
  package static let generationCount = 1 << 20

  /// The marks of subdirectories: sets of slots, of 64 bytes each.
  package static let marksOffset = generationsOffset + generationCount * 4
  package static let markByteCount = 64
  package static let marksPerSet = 4
  package static let markCount = 4096

  /// The sessions: a slot for each process that has the file open to change records.
  package static let sessionsOffset = marksOffset + markCount * markByteCount
  package static let sessionByteCount = 64
  package static let sessionCount = 1024

  /// The token of the process that took a slot last.
  package static func sessionTokenOffset(_ number: Int) -> Int { sessionsOffset + number * sessionByteCount }

  /// The number of that process.
  package static func sessionProcessOffset(_ number: Int) -> Int { sessionTokenOffset(number) + 8 }

  /// The slot of a token, which any word may be: its lowest bits.
  package static func sessionNumber(of token: UInt64) -> Int { Int(token % UInt64(sessionCount)) }

  /// A token for a slot: random, so that none comes again, and never 0. It has 56 bits, which leaves room beside it.
  package static func newToken(for number: Int) -> UInt64 {
    .random(in: 1..<1 << 46) * UInt64(sessionCount) + UInt64(number)
  }

  /// The stripes: who holds each, and room for what a change of a packed record announces.
  package static let stripesOffset = sessionsOffset + sessionCount * sessionByteCount
  package static let stripeByteCount = 32

  package static let byteCount = stripesOffset + stripeCount * stripeByteCount

  /// The words of a stripe behind the one that holds it.
  package enum IntentWord: Int, Sendable {
    /// What is written.
    case new = 8
    /// What is replaced or removed.
    case old = 16
  }

  package static func intentOffset(_ word: IntentWord, of stripe: Int) -> Int {
    stripeOffset(stripe) + word.rawValue
  }

  /// How many locks keys are spread over.
  package static let stripeCount = 4096

  /// The bytes that are locked, independent of their content: one a stripe, and one for the collector.
  package static let stripeBytes: Range<Int64> = 0..<Int64(stripeCount)
  package static let collectorByte = Int64(stripeCount)

  /// The byte whose lock says which process makes an index of the packs: anew, or a larger one.
  package static let packByte = collectorByte + 1..<collectorByte + 2

  package static let lockedBytes = stripeBytes.lowerBound..<(collectorByte + 1)

  /// The first byte whose lock says that a session's process lives: one a session.
  package static let sessionByteOffset: Int64 = 16384

  package static func sessionByte(_ number: Int) -> Range<Int64> {
    let byte = sessionByteOffset + Int64(number)
    return byte..<(byte + 1)
  }

  package static func stripe(of digest: UInt64) -> Int { Int(digest % UInt64(stripeCount)) }

  /// The first byte whose locks say which process makes a missing blob.
  ///
  /// There are as many as there are stripes.
  package static let productionOffset: Int64 = 8192

  package static func productionByte(of digest: UInt64) -> Range<Int64> {
    let byte = productionOffset + Int64(digest % UInt64(stripeCount))
    return byte..<(byte + 1)
  }

  package static func stripeByte(of digest: UInt64) -> Range<Int64> {
    let byte = Int64(stripe(of: digest))
    return byte..<(byte + 1)
  }

  package static func stripeOffset(_ stripe: Int) -> Int { stripesOffset + stripe * stripeByteCount }

  package static func generationOffset(of digest: UInt64) -> Int {
    generationsOffset + Int(digest % UInt64(generationCount)) * 4
  }
}
