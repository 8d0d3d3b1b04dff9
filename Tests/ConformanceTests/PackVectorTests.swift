import BlobRecord
import BlobStore
import Foundation
import TestSupport
import Testing

/// The code, the vectors in Spec/vectors/pack and the page Spec/PackFormat.md agree.
@Suite struct PackVectorTests {
  static func word<Word: FixedWidthInteger>(_ bytes: [UInt8], at offset: Int, as type: Word.Type = UInt64.self) -> Word
  {
    bytes[offset..<(offset + Word.bitWidth / 8)].reversed().reduce(0) { $0 << 8 | Word(truncatingIfNeeded: $1) }
  }

  static func salts(_ chunk: PackParts.Chunk) -> ChunkSalts {
    let words = (0..<4).map { word(chunk.deadSectors, at: $0 * PackLayout.deadSectorByteCount) as UInt64 }
    return ChunkSalts(words: SIMD4(words[0], words[1], words[2], words[3]))
  }

  static func walk(_ chunk: PackParts.Chunk) -> [PackedRecord] {
    var walk = ChunkWalk(pack: chunk.pack, chunk: chunk.manifest.chunk, salts: salts(chunk))
    var found: [PackedRecord] = []
    while let record = walk.next(in: chunk.records.span.bytes) { found.append(record) }
    return found
  }

  static func isDead(_ address: PackAddress, _ chunk: PackParts.Chunk) -> Bool {
    let sectors = PackLayout.deadSectorOffset(ofChunk: chunk.manifest.chunk, quarter: 0)
    return word(chunk.deadSectors, at: address.deadWordOffset - sectors) & address.deadBit != 0
  }

  static func name(_ record: PackedRecord, _ chunk: PackParts.Chunk) -> String {
    String(decoding: chunk.records[record.nameRange], as: UTF8.self)
  }

  // MARK: The code

  @Test func theHeadIsThatOfAPack() throws {
    let parts = try PackParts()
    #expect(Self.word(parts.head, at: 0) == PackLayout.magic)
    #expect(Self.word(parts.head, at: PackLayout.versionOffset) == PackLayout.version)
    #expect(Self.word(parts.head, at: PackLayout.numberOffset) == UInt64(parts.manifest.pack))
    #expect(Self.word(parts.head, at: PackLayout.chunkCountOffset) == UInt64(PackLayout.chunkCount))
    #expect(Self.word(parts.head, at: PackLayout.chunkByteCountOffset) == UInt64(PackLayout.chunkByteCount))
    let crc = CRC32.checksum(of: Array(parts.head[..<PackLayout.crcOffset]))
    #expect(Self.word(parts.head, at: PackLayout.crcOffset, as: UInt32.self) == crc)
    #expect(parts.head.count == PackLayout.headerByteCount)
  }

  @Test func thePartsLieWhereTheLayoutHasThem() throws {
    let parts = try PackParts()
    var expected = ["pack/head": 0, "pack/index": 0, "pack/checkpoint-head": 0]
    for (chunk, prefix) in zip(parts.chunks, ["", "covered-"]) {
      let number = chunk.manifest.chunk
      expected["pack/\(prefix)table-entry"] = PackLayout.tableEntryOffset(ofChunk: number)
      expected["pack/\(prefix)dead-sectors"] = PackLayout.deadSectorOffset(ofChunk: number, quarter: 0)
      expected["pack/\(prefix)records"] = PackLayout.fileOffset(ofChunk: number)
      let salts = Self.salts(chunk)
      #expect((0..<4).map { quarter in salts[quarter].map(hexadecimal) } == chunk.manifest.salts)
      let end = chunk.manifest.records.map { $0.offset + $0.byteCount }.max()
      #expect(
        Self.word(chunk.tableEntry, at: PackLayout.TableEntry.inFlightOffset + 4, as: UInt32.self)
          == end.map(UInt32.init))
    }
    // The salts of the free chunk before the first one, of the first one and of the second.
    expected["pack/checkpoint-salts"] = CheckpointLayout.coverOffset(
      pack: parts.manifest.pack, chunk: parts.manifest.chunks[0].chunk - 1)
    expected["pack/checkpoint-buckets"] = CheckpointLayout.bucketsOffset(packs: parts.manifest.pack + 1)
    #expect(Dictionary(uniqueKeysWithValues: parts.manifest.parts.map { ($0.path, $0.offset) }) == expected)
    for part in parts.manifest.parts {
      #expect(try Specification.bytes("vectors/" + part.path).count == part.byteCount, "\(part.path)")
    }
  }

  @Test func aWalkFindsTheRecordsOfTheManifest() throws {
    for chunk in try PackParts().chunks {
      let found = Self.walk(chunk)
      let expected = chunk.manifest.records.filter(\.isFound)
      try #require(found.count == expected.count)
      for (record, expected) in zip(found, expected) { try expect(expected, by: record, in: chunk) }
    }
  }

  private func expect(_ expected: PackManifest.Record, by record: PackedRecord, in chunk: PackParts.Chunk) throws {
    let header = record.header
    #expect(record.address.offset == expected.offset && record.range.count == expected.byteCount)
    #expect(hexadecimal(record.address.rawValue) == expected.address)
    #expect(hexadecimal(Self.word(chunk.records, at: expected.offset, as: UInt32.self)) == expected.crc)
    #expect(Self.name(record, chunk) == expected.name)
    let digest = NameDigest.digest(ofFileName: expected.name)
    #expect(hexadecimal(digest) == expected.digest)
    #expect(header.sequence == expected.sequence)
    let file = header.recordHeader(nameDigest: digest)
    #expect(file.refCount == expected.refCount && file.ttl == expected.ttl && file.updateTime == expected.updateTime)
    #expect(file.payloadSize == UInt64(expected.payloadSize))
    #expect(file.payloadChecksum.map(hexadecimal) == expected.payloadCRC32)
    #expect(Int(file.reserved4) == expected.extensionSize)
    let payload = CRC32.checksum(of: Array(chunk.records[record.payloadRange]))
    #expect((payload == file.payloadChecksum) == (expected.fate != "damaged"))
    #expect(Self.isDead(record.address, chunk) == (expected.fate == "dead"))
    if expected.extensionSize > 0 {
      let tail = try RecordExtension(decoding: Array(chunk.records[record.extensionRange]).span.bytes)
      #expect(try RecordLayout().path(for: try #require(tail.key)).fileName == expected.name)
    }
  }

  @Test func whatIsEncodedAnewIsTheSameBytes() throws {
    for chunk in try PackParts().chunks {
      for record in Self.walk(chunk) {
        let name = Array(chunk.records[record.nameRange])
        var bytes = [UInt8](repeating: 0, count: 40 + name.count)
        let salt = try #require(Self.salts(chunk)[record.address.quarter])
        do {
          var span = bytes.mutableSpan
          var raw = span.mutableBytes
          record.header.encode(name: name.span.bytes, at: record.address, salt: salt, into: &raw)
        }
        #expect(bytes == Array(chunk.records[record.range.lowerBound..<record.nameRange.upperBound]))
      }
    }
  }

  @Test func theIndexMadeAnewIsThatOfTheVector() throws {
    let parts = try PackParts()
    var rebuild = PackRebuild()
    for chunk in parts.chunks {
      for record in Self.walk(chunk) {
        rebuild.add(record, isDead: Self.isDead(record.address, chunk), in: chunk.records.span.bytes)
      }
    }
    func addresses(_ fates: Set<String>) -> Set<String> {
      Set(parts.manifest.records.filter { fates.contains($0.fate) }.map(\.address))
    }
    #expect(Set(rebuild.entries.map { hexadecimal($0.address.rawValue) }) == addresses(["newest"]))
    #expect(Set(rebuild.mustDie.map { hexadecimal($0.rawValue) }) == addresses(["replaced", "damaged"]))
    #expect(rebuild.highestSequence == parts.manifest.records.filter(\.isFound).map(\.sequence).max())

    let seed = Self.word(parts.index, at: IndexLayout.seedOffset)
    let count = Self.word(parts.index, at: IndexLayout.bucketCountOffset)
    #expect(Self.word(parts.index, at: 0) == IndexLayout.magic)
    #expect(Self.word(parts.index, at: IndexLayout.versionOffset) == IndexLayout.version)
    #expect(Self.word(parts.index, at: IndexLayout.entriesInUseOffset) == UInt64(rebuild.count))
    #expect(parts.index.count == IndexLayout.byteCount(ofBuckets: Int(count)))
    for entry in rebuild.entries {
      let hash = IndexHash(digest: entry.nameDigest, seed: seed)
      let expected = IndexEntry(tag: hash.tag, byteCount: entry.byteCount, address: entry.address)
      // No bucket of the vector overflows into the next one.
      let bucket = IndexLayout.bucketOffset(Int(hash.bucket(of: count)))
      let slot = (0..<IndexLayout.entriesPerBucket).first {
        Self.word(parts.index, at: bucket + $0 * 8) == expected.rawValue
      }
      let time = Self.word(
        parts.index, at: bucket + IndexLayout.timesOffset + 4 * (try #require(slot)), as: UInt32.self)
      #expect(IndexLayout.use(at: time).seconds == parts.manifest.lastUse)
    }
  }

  @Test func theCheckpointIsThatOfTheVector() throws {
    let parts = try PackParts()
    let decoded = CheckpointHeader(decoding: parts.checkpointHead.span.bytes)
    let header = try #require(decoded)
    #expect(header.encoded.prefix(CheckpointLayout.headerFieldsByteCount).elementsEqual(parts.checkpointHead))
    #expect(header.sequence == parts.manifest.checkpoint.sequence && header.packCount == parts.manifest.pack + 1)
    #expect(header.bucketCount * IndexLayout.bucketByteCount == parts.checkpointBuckets.count)
    #expect(header.bucketsCRC == CRC32.checksum(of: parts.checkpointBuckets.span.bytes))
    let last = try #require(parts.manifest.parts.last { $0.file == "checkpoint" })
    #expect(header.fileByteCount == last.offset + last.byteCount)

    let entries = stride(from: 0, to: parts.checkpointBuckets.count, by: IndexLayout.bucketByteCount).flatMap { start in
      (0..<IndexLayout.entriesPerBucket).map { Self.word(parts.checkpointBuckets, at: start + $0 * 8) as UInt64 }
    }
    let records = parts.manifest.records.filter(\.inCheckpoint)
    for record in records {
      let hash = IndexHash(digest: NameDigest.digest(ofFileName: record.name), seed: header.seed)
      let address = PackAddress(rawValue: try #require(UInt64(record.address.dropFirst(2), radix: 16)))
      let entry = IndexEntry(tag: hash.tag, byteCount: record.byteCount, address: address)
      #expect(entries.contains(entry.rawValue), "\(record)")
    }
    // One entry refers to a free chunk.
    #expect(entries.count { $0 != 0 } == records.count + 1)
  }

  // MARK: Another reader

  /// The reader was written in Python from the page.
  @Test(.enabled(if: PackReader.isInstalled, "needs python3"), arguments: PackReader.Way.allCases)
  func anIndependentReaderFindsTheNewest(way: PackReader.Way) throws {
    let parts = try PackParts()
    let temporary = try TemporaryDirectory()
    let directory = temporary.path.appending("packs").string
    try parts.write(to: directory)
    let lines = try PackReader.records(in: directory, by: way)
    let newest = parts.manifest.records.filter { $0.fate == "newest" }
    #expect(lines.map { hexadecimal($0.address) } == newest.map(\.address) && lines.map(\.name) == newest.map(\.name))
    #expect(lines.map(\.payloadCRC32) == newest.map(\.payloadCRC32))
    let uses = parts.manifest.chunks.flatMap { chunk in
      chunk.records.filter { $0.fate == "newest" }.map { record -> Int64? in
        switch way {
        case .walk: nil
        case .index: parts.manifest.lastUse
        case .checkpoint:
          parts.manifest.checkpoint.covered.contains(chunk.chunk)
            ? parts.manifest.checkpoint.lastUse : Int64(record.updateTime)
        }
      }
    }
    #expect(lines.map(\.lastUse) == uses)
  }

  /// Flips a bit in each part with a check value, and in a salt. The records of that part are then found by a walk.
  @Test(
    .enabled(if: PackReader.isInstalled, "needs python3"),
    arguments: ["checkpoint-head", "checkpoint-salts", "checkpoint-buckets"])
  func anIndependentReaderBelievesNoDamagedCheckpoint(part: String) throws {
    let parts = try PackParts()
    let temporary = try TemporaryDirectory()
    let directory = temporary.path.appending("packs").string
    try parts.write(to: directory)
    let damaged = try #require(parts.manifest.parts.first { $0.path == "pack/" + part })
    var bytes = [UInt8](try Data(contentsOf: URL(filePath: directory + "/checkpoint")))
    // The last byte of the salts belongs to the covered chunk. The header's last byte belongs to the CRC.
    bytes[damaged.offset + damaged.byteCount - 1] ^= 0x10
    try Data(bytes).write(to: URL(filePath: directory + "/checkpoint"))
    let lines = try PackReader.records(in: directory, by: .checkpoint)
    let newest = parts.manifest.records.filter { $0.fate == "newest" }
    #expect(lines.map { hexadecimal($0.address) } == newest.map(\.address))
    #expect(lines.map(\.lastUse) == newest.map { Int64($0.updateTime) })
  }

  // MARK: The page

  @Test func theTablesOfThePageHaveNoHoles() throws {
    let rows = try Specification.text("PackFormat.md")
      .matches(of: #/\| ([0-9]+) \| ([0-9]+) \| [A-Za-z0-9]+ \| [ui]([0-9]+) LE \|/#)
    let fields = rows.map { (offset: Int($0.1) ?? -1, size: Int($0.2) ?? 0, bits: Int($0.3) ?? 0) }
    #expect(fields.allSatisfy { $0.size * 8 == $0.bits })
    // The record's header is the only table that begins with a CRC.
    let start = try #require(fields.firstIndex { $0.offset == 0 && $0.size == 4 })
    var offset = 0
    for field in fields[start..<(start + 7)] {
      #expect(field.offset == offset)
      offset += field.size
    }
    #expect(offset == PackLayout.recordHeaderByteCount)
  }

  @Test(
    arguments: [
      ("version", CheckpointLayout.versionOffset), ("sequence", CheckpointLayout.sequenceOffset),
      ("seed", CheckpointLayout.seedOffset), ("bucketCount", CheckpointLayout.bucketCountOffset),
      ("packCount", CheckpointLayout.packCountOffset), ("bucketsCRC", CheckpointLayout.bucketsCRCOffset),
      ("crc", CheckpointLayout.crcOffset),
    ])
  func theOffsetsOfACheckpointAreThoseOfThePage(field: String, offset: Int) throws {
    let section = try Self.checkpointSection()
    let rows = section.matches(of: #/\| ([0-9]+) \| [48] \| ([A-Za-z]+) \| u(?:32|64) LE \|/#)
    #expect(rows.count == 8 && rows.first?.2 == "magic")
    #expect(rows.first { $0.2 == field }?.1 == "\(offset)")
  }

  @Test func thePartsOfACheckpointAreThoseOfThePage() throws {
    let section = try Self.checkpointSection()
    let start = CheckpointLayout.coverOffset(pack: 0, chunk: 0)
    let perPack = CheckpointLayout.bucketsOffset(packs: 1) - start
    let perBucket = CheckpointLayout.byteCount(packs: 1, buckets: 1) - CheckpointLayout.bucketsOffset(packs: 1)
    let perChunk = CheckpointLayout.coverByteCount
    let (startText, perPackText) = (Self.grouped(start), Self.grouped(perPack))
    #expect(section.contains("| 0 | \(CheckpointLayout.headerFieldsByteCount) | header, up to offset \(startText) "))
    #expect(section.contains("| \(startText) | \(perPackText) `packCount` |"))
    #expect(section.contains("| \(startText) + \(perPackText) `packCount` | \(perBucket) `bucketCount` |"))
    #expect(section.contains("at \(startText) + \(perPackText) `p` + \(perChunk) `c`."))
    #expect(CheckpointLayout.coverOffset(pack: 2, chunk: 3) == start + perPack * 2 + perChunk * 3)
    #expect(section.contains("| 0x" + hexadecimal(CheckpointLayout.magic).dropFirst(2).uppercased() + ", "))
    #expect(section.contains("and \(Self.grouped(PackLayout.mostRecords)) for each pack at the most"))
  }

  private static func checkpointSection() throws -> Substring {
    let text = try Specification.text("PackFormat.md")
    return try #require(text.firstMatch(of: #/## 7\. The checkpoint\n((?s:.*?))\n## /#)).1
  }

  /// Inserts a comma before each group of three digits, like the page.
  private static func grouped(_ number: Int) -> String {
    var digits = String(number)
    var end = digits.count - 3
    while end > 0 {
      digits.insert(",", at: digits.index(digits.startIndex, offsetBy: end))
      end -= 3
    }
    return digits
  }

  @Test func theCheckValuesAreThoseOfTheVectors() throws {
    let text = try Specification.text("PackFormat.md")
    let rows = text.matches(of: #/\| ([0-9]+) \| 0x([0-9A-F]{8}) \| `([^`]+)` \| 0x([0-9A-F]{8}) \|/#)
    let records = try PackManifest.load().records
    #expect(rows.count == 3)
    for row in rows {
      let record = try #require(records.first { String($0.offset) == row.1 })
      #expect(record.address.hasSuffix(row.2.lowercased()) && record.name == row.3)
      #expect(record.crc == "0x" + row.4.lowercased())
    }
    let hash = IndexHash(digest: 0xCBF2_9CE4_8422_2325, seed: 0x0123_4567_89AB_CDEF)
    #expect(hash.bucket(of: 1 << 32) == 0xA650_B894 && hash.tag == 0xF4A0)
    #expect(text.contains("gives 0xA650B89455C9F4A0, the tag 0xF4A0"))
  }

  @Test func theExampleIsARecordOfTheVectors() throws {
    let block = try #require(try Specification.text("PackFormat.md").firstMatch(of: #/```hex\n([^`]*)```/#)).1
    var bytes: [UInt8] = []
    for line in block.split(separator: "\n") {
      let match = try #require(line.firstMatch(of: #/^([0-9A-F]{2})  ((?:[0-9A-F]{2} )*[0-9A-F]{2})  /#), "\(line)")
      try #require(Int(match.1, radix: 16) == bytes.count, "\(line)")
      bytes += match.2.split(separator: " ").compactMap { UInt8($0, radix: 16) }
    }
    #expect(try bytes == Array(PackParts().chunks[0].records[184..<248]))
  }
}
