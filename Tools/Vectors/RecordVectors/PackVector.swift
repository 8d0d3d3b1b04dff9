internal import BlobRecord

/// Parts of a pack and of its index, Spec/vectors/pack: a chunk's first records, its salts and dead bits, and where the
/// newest of them are found.
///
/// The bytes are put by hand where Spec/PackFormat.md has them: they are there to check the code that writes packs.
enum PackVector {
  static let pack = 3
  static let chunk = 5
  static let identifier: UInt64 = 0x0123_4567_89AB_CDEF
  static let session: UInt64 = 7
  /// Of the four quarters; the third one's sector is not whole.
  static let salts: [UInt32?] = [0x5EED_0001, 0x5EED_0002, nil, 0]
  static let formerSalt: UInt32 = 0x5EED_0099

  static let chunkSize = 1_032_192
  static let quarterSize = chunkSize / 4
  static let seed: UInt64 = 0xFEDC_BA98_7654_3210
  static let bucketCount: UInt64 = 8
  /// Unix seconds, of every entry.
  static let lastUse: UInt32 = 1_700_000_100

  /// The chunk's bytes that the vector has: those before this offset. The rest of the chunk is zeros.
  static let byteCount = 4096

  static let longKey = BlobKey(String(repeating: "long", count: 64))
  static var longName: String {
    guard let path = try? RecordLayout().path(for: longKey) else { preconditionFailure("the key has no file name") }
    return path.fileName
  }

  /// What a reader makes of what lies at an offset.
  enum Fate: String {
    /// The newest of its name: a load finds it.
    case newest
    /// Its bit says so.
    case dead
    /// A later record of its name has taken its place, and its bit was lost.
    case replaced
    /// Its payload is not what was stored.
    case damaged
    /// Nothing that a walk finds: the header is damaged, a copy, or of a former life of the chunk.
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
    /// The salt in its crc.
    var salt: UInt32? = salts[0]
    /// The bytes of the record that are not the right ones.
    var damage: Range<Int>?
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

  /// In the order of their offsets.
  static let records: [Record] = {
    var records = [
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
        fate: .newest),
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
    ]
    var end = 0
    for index in records.indices {
      if records[index].name.hasSuffix("carrier") { records[index].payload = records[0].bytes }
      // A multiple of 8 from which on 40 bytes do not cross a multiple of 512.
      var offset = (end + 7) / 8 * 8
      while offset % 512 > 512 - 40 { offset += 8 }
      records[index].offset = offset
      end = offset + records[index].size
    }
    return records
  }()

  static let end = records.last.map { $0.offset + $0.size } ?? 0
}

// MARK: - The files

extension PackVector {
  /// The parts with the file they are parts of, and where they lie there.
  private static var parts: [(path: String, file: String, offset: Int, bytes: [UInt8])] {
    [
      ("pack/head", "p-3", 0, head), ("pack/table-entry", "p-3", 4096 + chunk * 64, tableEntry),
      ("pack/dead-sectors", "p-3", 69_632 + chunk * 4 * 512, deadSectors),
      ("pack/records", "p-3", 2_166_784 + chunk * chunkSize, recordBytes), ("pack/index", "index", 0, index),
    ]
  }

  static var files: [(path: String, bytes: [UInt8])] {
    parts.map { ($0.path, $0.bytes) } + [("pack/manifest.json", Array((manifest.rendered() + "\n").utf8))]
  }

  private static var head: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 64)
    bytes.replaceSubrange(0..<8, with: Array("BLOBPACK".utf8))
    for (index, value) in [1, UInt64(pack), 1024, UInt64(chunkSize), identifier].enumerated() {
      bytes.put(value, at: 8 + 8 * index)
    }
    bytes.put(CRC32.checksum(of: bytes.span.bytes.extracting(first: 60)), at: 60)
    return bytes
  }

  private static var tableEntry: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 64)
    bytes.put(session << 8 | 2, at: 0)
    bytes.put(UInt32(end), at: 12)
    let newest = records.filter { $0.fate == .newest }
    bytes.put(UInt32(newest.map(\.size).reduce(0, +)), at: 16)
    bytes.put(UInt32(newest.count), at: 20)
    bytes.put(8 as UInt32, at: 24)
    bytes.put(UInt64(VectorSet.updateTime + 3600), at: 32)
    bytes.put(7 as UInt64, at: 40)
    return bytes
  }

  private static var deadSectors: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 4 * 512)
    for (quarter, salt) in salts.enumerated() {
      bytes.put(salt ?? 0x5EED_0003, at: quarter * 512)
      bytes.put(salt.map { ~$0 } ?? 0, at: quarter * 512 + 4)
    }
    for record in records where record.fate == .dead {
      let cell = record.offset % quarterSize / 64
      bytes[record.offset / quarterSize * 512 + 8 + cell / 8] |= 1 << UInt8(cell % 8)
    }
    return bytes
  }

  private static var recordBytes: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: byteCount)
    for record in records { bytes.replaceSubrange(record.offset..<(record.offset + record.size), with: record.bytes) }
    return bytes
  }

  /// The newest records, in eight buckets.
  private static var index: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 4096 + Int(bucketCount) * 64)
    bytes.replaceSubrange(0..<8, with: Array("BLOBINDX".utf8))
    let newest = records.filter { $0.fate == .newest }
    for (index, value) in [1, 0xB10B, bucketCount, seed].enumerated() { bytes.put(value, at: 8 + 8 * index) }
    for index in 0..<16 { bytes[40 + index] = UInt8(0xA0 + index) }
    bytes.put(UInt64(newest.count), at: 64)
    for record in newest {
      let hash = hash(of: record)
      var bucket = Int(hash.multipliedFullWidth(by: bucketCount).high)
      while true {
        let start = 4096 + bucket * 64
        if let slot = (0..<5).first(where: { slot in
          bytes[(start + slot * 8)..<(start + slot * 8 + 8)].allSatisfy { $0 == 0 }
        }) {
          bytes.put(entry(of: record), at: start + slot * 8)
          bytes.put(lastUse - 1_600_000_000, at: start + 40 + slot * 4)
          break
        }
        bytes.put(1 as UInt32, at: start + 60)
        bucket = (bucket + 1) % Int(bucketCount)
      }
    }
    return bytes
  }

  private static func entry(of record: Record) -> UInt64 {
    hash(of: record) << 48 | UInt64((record.size + 15) / 16) << 37 | record.address
  }

  private static func hash(of record: Record) -> UInt64 {
    var hash = record.digest ^ seed
    hash = (hash ^ hash >> 30) &* 0xBF58_476D_1CE4_E5B9
    hash = (hash ^ hash >> 27) &* 0x94D0_49BB_1331_11EB
    return hash ^ hash >> 31
  }
}

// MARK: - The manifest

extension PackVector {
  private static var manifest: JSONText {
    .object([
      ("specification", .string("Spec/PackFormat.md")),
      ("version", .number(1)),
      ("pack", .number(pack)),
      ("chunk", .number(chunk)),
      (
        "parts",
        .array(
          parts.map { part in
            .object([
              ("path", .string(part.path)), ("file", .string(part.file)), ("offset", .number(part.offset)),
              ("byteCount", .number(part.bytes.count)),
            ])
          })
      ),
      ("salts", .array(salts.map { $0.map { .hexadecimal($0) } ?? .null })),
      ("lastUse", .number(lastUse)),
      ("records", .array(records.map(\.manifestEntry))),
    ])
  }
}

extension PackVector.Record {
  fileprivate var manifestEntry: JSONText {
    .object([
      ("offset", .number(offset)),
      ("note", .string(note)),
      ("fate", .string(fate.rawValue)),
      ("address", .hexadecimal(address)),
      ("byteCount", .number(size)),
      ("crc", .hexadecimal(bytes[..<4].reversed().reduce(0 as UInt32) { $0 << 8 | UInt32($1) })),
      ("sequence", .number(sequence)),
      ("name", .string(name)),
      ("digest", .hexadecimal(digest)),
      ("refCount", .number(refCount)),
      ("ttl", .number(ttl)),
      ("updateTime", .number(VectorSet.updateTime)),
      ("payloadSize", .number(payload.count)),
      ("payloadCRC32", .hexadecimal(CRC32.checksum(of: payload.span.bytes))),
      ("extensionSize", .number(tail.count)),
    ])
  }
}

extension [UInt8] {
  fileprivate mutating func put(_ value: some FixedWidthInteger, at offset: Int) {
    for index in 0..<value.bitWidth / 8 { self[offset + index] = UInt8(truncatingIfNeeded: value >> (8 * index)) }
  }
}
