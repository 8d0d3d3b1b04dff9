internal import BlobRecord

/// Parts of a pack, of its index and of a checkpoint in Spec/vectors/pack: the first records of two chunks, their
/// salts and dead bits, and the entries of the newest records.
///
/// The bytes are written to the offsets in Spec/PackFormat.md without the code that writes packs, because they test it.
enum PackVector {
  static let pack = 3
  static let identifier: UInt64 = 0x0123_4567_89AB_CDEF
  static let session: UInt64 = 7
  static let formerSalt: UInt32 = 0x5EED_0099

  static let seed: UInt64 = 0xFEDC_BA98_7654_3210
  static let bucketCount: UInt64 = 8
  /// The time of last use of every index entry, in Unix seconds.
  static let lastUse: UInt32 = 1_700_000_100

  /// The seed of the index that the checkpoint copied, which had a different number of buckets.
  static let checkpointSeed: UInt64 = 0x0F1E_2D3C_4B5A_6978
  static let checkpointBucketCount: UInt64 = 2
  static let checkpointSequence: UInt64 = 21
  /// The time of last use of every checkpoint entry, in Unix seconds.
  static let checkpointLastUse: UInt32 = 1_700_000_050

  static let longKey = BlobKey(String(repeating: "long", count: 64))
  static var longName: String {
    guard let path = try? RecordLayout().path(for: longKey) else { preconditionFailure("the key has no file name") }
    return path.fileName
  }

  /// The result of reading the bytes at the offset of a record.
  enum Fate: String {
    /// The record is the newest one of its name, so a load finds it.
    case newest
    /// The dead bit of the record is set.
    case dead
    /// The record was superseded by a later one of its name, but its dead bit was lost.
    case replaced
    /// The record's payload does not match its checksum.
    case damaged
    /// A walk finds no record, because the header is damaged, is a copy, or belongs to a former life of the chunk.
    case nothing
  }

  struct Record {
    var note: String
    var name: String
    var payload: [UInt8]
    var tail: [UInt8] = []
    var sequence: UInt64
    var refCount: UInt32 = 0
    var ttl: UInt64 = 3600
    var fate: Fate
    /// The salt that the record's crc includes.
    var salt: UInt32?
    /// The range of the record's bytes that are damaged.
    var damage: Range<Int>?
    /// A Boolean value that indicates whether an entry of the checkpoint refers to the record.
    var inCheckpoint = false
    var chunk = 0
    var offset = 0

    var address: UInt64 { UInt64(pack) << 27 | UInt64(chunk) << 17 | UInt64(offset / 8) }
    var digest: UInt64 { NameDigest.digest(ofFileName: name) }
    var size: Int { max(64, 40 + name.utf8.count + payload.count + tail.count) }

    var bytes: [UInt8] {
      var bytes = [UInt8](repeating: 0, count: 40)
      bytes.put(CRC32.checksum(of: payload.span.bytes), at: 4)
      bytes.put(sequence | UInt64(name.utf8.count) << 56, at: 8)
      let flags: UInt64 = tail.isEmpty ? 0x6 : 0xE
      bytes.put(UInt64(VectorSet.updateTime) | UInt64(payload.count) << 40 | flags << 56, at: 16)
      bytes.put(min(ttl, 1 << 40 - 1) | UInt64(tail.count) << 40, at: 24)
      bytes.put(refCount, at: 32)
      bytes.replaceSubrange(36..<40, with: Array("PREC".utf8))
      bytes += Array(name.utf8)
      var checked = [UInt8](repeating: 0, count: 12)
      checked.put(salt ?? 0, at: 0)
      checked.put(address, at: 4)
      checked += bytes[4...]
      bytes.put(CRC32.checksum(of: checked.span.bytes), at: 0)
      bytes += payload + tail
      bytes += [UInt8](repeating: 0, count: size - bytes.count)
      for index in damage ?? 0..<0 { bytes[index] ^= 0x55 }
      return bytes
    }
  }

  static let chunks = [walked, covered]

  /// A chunk that the checkpoint does not cover. The dead sector of its third quarter is invalid.
  static let walked = Chunk(
    number: 5, partByteCount: 4096, prefix: "", salts: [0x5EED_0001, 0x5EED_0002, nil, 0], openingSequence: 7,
    records: [
      Record(
        note: "replaced by the record of sequence 14, and marked", name: "album%2F1",
        payload: RecordVector.pattern(128), sequence: 10, fate: .dead),
      Record(
        note: "63 bytes, and one of padding; never expires; locked twice", name: "key-with-a-name-of-23-b",
        payload: [], sequence: 11, refCount: 2, ttl: UInt64(Int64.max), fate: .newest),
      Record(
        note: "the longest name, and an extension with key and data behind the payload", name: longName,
        payload: RecordVector.pattern(33),
        tail: RecordExtension(key: longKey, data: Array("image/png".utf8)).encoded, sequence: 12, ttl: 0, fate: .newest),
      Record(
        note: "one bit of the header", name: "damaged-header", payload: RecordVector.pattern(20), sequence: 13,
        fate: .nothing, damage: 33..<34),
      Record(
        note: "the newest of its name", name: "album%2F1", payload: RecordVector.pattern(200), sequence: 14,
        fate: .newest, inCheckpoint: true),
      Record(
        note: "its payload is a copy of the first record", name: "carrier", payload: [], sequence: 15, fate: .newest),
      Record(
        note: "a carrier whose header is damaged: the copy in its payload is no record", name: "broken-carrier",
        payload: [], sequence: 16, fate: .nothing, damage: 8..<9),
      Record(
        note: "of the chunk's former life, by another salt", name: "former", payload: RecordVector.pattern(50),
        sequence: 2, fate: .nothing, salt: formerSalt),
      Record(
        note: "one byte of the payload", name: "damaged-payload", payload: RecordVector.pattern(60), sequence: 17,
        fate: .damaged, damage: 60..<61),
      Record(
        note: "an older one of its name, whose dead bit was lost", name: "moved", payload: RecordVector.pattern(10),
        sequence: 8, fate: .replaced),
      Record(note: "removed", name: "removed", payload: RecordVector.pattern(5), sequence: 18, fate: .dead),
      Record(
        note: "the newest of its name", name: "moved", payload: RecordVector.pattern(400), sequence: 19, fate: .newest),
      Record(
        note: "an older one of its name, whose dead bit was lost; the newest is covered", name: "covered",
        payload: RecordVector.pattern(30), sequence: 9, fate: .replaced),
    ])

  /// A chunk that the checkpoint covers.
  static let covered = Chunk(
    number: 6, partByteCount: 1024, prefix: "covered-",
    salts: [0x5EED_0011, 0x5EED_0012, 0x5EED_0013, 0x5EED_0014], openingSequence: 3,
    records: [
      Record(
        note: "the newest of its name, by an entry of the checkpoint", name: "covered",
        payload: RecordVector.pattern(70), sequence: 21, fate: .newest, inCheckpoint: true),
      Record(
        note: "an older one of its name, whose dead bit was lost; the newest is not covered", name: "moved",
        payload: RecordVector.pattern(20), sequence: 7, fate: .replaced, inCheckpoint: true),
      Record(
        note: "removed after the checkpoint was made", name: "removed-since", payload: RecordVector.pattern(40),
        sequence: 20, fate: .dead, inCheckpoint: true),
      Record(
        note: "removed before the checkpoint was made", name: "removed", payload: RecordVector.pattern(6), sequence: 4,
        fate: .dead),
      Record(
        note: "the newer one of its name is damaged, and the dead bit of this one was lost", name: "damaged-payload",
        payload: RecordVector.pattern(50), sequence: 6, fate: .newest, inCheckpoint: true),
    ])

  /// A free chunk, of which no part contains bytes. The checkpoint still has salts and an entry of its former life.
  static let freed = Chunk(
    number: 4, partByteCount: 0, prefix: "freed-",
    salts: [0x5EED_0021, 0x5EED_0022, 0x5EED_0023, 0x5EED_0024], openingSequence: 0,
    records: [
      Record(
        note: "of a former life", name: "freed", payload: [], sequence: 1, fate: .nothing, inCheckpoint: true)
    ])
}
