import BlobRecord
import BlobStore
import Foundation
import TestSupport
import Testing

/// Spec/vectors/pack and Spec/PackFormat.md: the code, the vectors and the page say the same.
@Suite struct PackVectorTests {
  static func word<Word: FixedWidthInteger>(_ bytes: [UInt8], at offset: Int, as type: Word.Type = UInt64.self) -> Word
  {
    bytes[offset..<(offset + Word.bitWidth / 8)].reversed().reduce(0) { $0 << 8 | Word(truncatingIfNeeded: $1) }
  }

  static func salts(_ parts: PackParts) -> ChunkSalts {
    let words = (0..<4).map { word(parts.deadSectors, at: $0 * PackLayout.deadSectorByteCount) as UInt64 }
    return ChunkSalts(words: SIMD4(words[0], words[1], words[2], words[3]))
  }

  static func walk(_ parts: PackParts) -> [PackedRecord] {
    var walk = ChunkWalk(pack: parts.manifest.pack, chunk: parts.manifest.chunk, salts: salts(parts))
    var found: [PackedRecord] = []
    while let record = walk.next(in: parts.records.span.bytes) { found.append(record) }
    return found
  }

  static func isDead(_ address: PackAddress, _ parts: PackParts) -> Bool {
    let sectors = PackLayout.deadSectorOffset(ofChunk: parts.manifest.chunk, quarter: 0)
    return word(parts.deadSectors, at: address.deadWordOffset - sectors) & address.deadBit != 0
  }

  static func name(_ record: PackedRecord, _ parts: PackParts) -> String {
    String(decoding: parts.records[record.nameRange], as: UTF8.self)
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
    let chunk = parts.manifest.chunk
    let offsets = Dictionary(uniqueKeysWithValues: parts.manifest.parts.map { ($0.path, $0.offset) })
    #expect(
      offsets == [
        "pack/head": 0, "pack/table-entry": PackLayout.tableEntryOffset(ofChunk: chunk),
        "pack/dead-sectors": PackLayout.deadSectorOffset(ofChunk: chunk, quarter: 0),
        "pack/records": PackLayout.fileOffset(ofChunk: chunk), "pack/index": 0,
      ])
    for part in parts.manifest.parts {
      #expect(try Specification.bytes("vectors/" + part.path).count == part.byteCount, "\(part.path)")
    }
    let salts = Self.salts(parts)
    #expect((0..<4).map { quarter in salts[quarter].map(hexadecimal) } == parts.manifest.salts)
    let end = parts.manifest.records.map { $0.offset + $0.byteCount }.max()
    #expect(Self.word(parts.tableEntry, at: PackLayout.TableEntry.endOffset, as: UInt32.self) == end.map(UInt32.init))
  }

  @Test func aWalkFindsTheRecordsOfTheManifest() throws {
    let parts = try PackParts()
    let found = Self.walk(parts)
    let expected = parts.manifest.records.filter(\.isFound)
    try #require(found.count == expected.count)
    for (record, expected) in zip(found, expected) {
      let header = record.header
      #expect(record.address.offset == expected.offset && record.range.count == expected.byteCount)
      #expect(hexadecimal(record.address.rawValue) == expected.address)
      #expect(hexadecimal(Self.word(parts.records, at: expected.offset, as: UInt32.self)) == expected.crc)
      #expect(Self.name(record, parts) == expected.name)
      let digest = NameDigest.digest(ofFileName: expected.name)
      #expect(hexadecimal(digest) == expected.digest)
      #expect(header.sequence == expected.sequence)
      let file = header.recordHeader(nameDigest: digest)
      #expect(file.refCount == expected.refCount && file.ttl == expected.ttl && file.updateTime == expected.updateTime)
      #expect(file.payloadSize == UInt64(expected.payloadSize))
      #expect(file.payloadChecksum.map(hexadecimal) == expected.payloadCRC32)
      #expect(Int(file.reserved4) == expected.extensionSize)
      let payload = CRC32.checksum(of: Array(parts.records[record.payloadRange]))
      #expect((payload == file.payloadChecksum) == (expected.fate != "damaged"))
      #expect(Self.isDead(record.address, parts) == (expected.fate == "dead"))
      if expected.extensionSize > 0 {
        let tail = try RecordExtension(decoding: Array(parts.records[record.extensionRange]).span.bytes)
        #expect(try RecordLayout().path(for: try #require(tail.key)).fileName == expected.name)
      }
    }
  }

  @Test func whatIsEncodedAnewIsTheSameBytes() throws {
    let parts = try PackParts()
    for record in Self.walk(parts) {
      let name = Array(parts.records[record.nameRange])
      var bytes = [UInt8](repeating: 0, count: 40 + name.count)
      let salt = try #require(Self.salts(parts)[record.address.quarter])
      do {
        var span = bytes.mutableSpan
        var raw = span.mutableBytes
        record.header.encode(name: name.span.bytes, at: record.address, salt: salt, into: &raw)
      }
      #expect(bytes == Array(parts.records[record.range.lowerBound..<record.nameRange.upperBound]))
    }
  }

  @Test func theIndexMadeAnewIsThatOfTheVector() throws {
    let parts = try PackParts()
    var rebuild = PackRebuild()
    for record in Self.walk(parts) {
      rebuild.add(record, isDead: Self.isDead(record.address, parts), in: parts.records.span.bytes)
    }
    func offsets(_ fates: Set<String>) -> Set<Int> {
      Set(parts.manifest.records.filter { fates.contains($0.fate) }.map(\.offset))
    }
    #expect(Set(rebuild.entries.map(\.address.offset)) == offsets(["newest"]))
    #expect(Set(rebuild.mustDie.map(\.offset)) == offsets(["replaced", "damaged"]))
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
      // No bucket of the vector is so full that an entry lies in the next one.
      let bucket = IndexLayout.bucketOffset(Int(hash.bucket(of: count)))
      let slot = (0..<IndexLayout.entriesPerBucket).first {
        Self.word(parts.index, at: bucket + $0 * 8) == expected.rawValue
      }
      let time = Self.word(
        parts.index, at: bucket + IndexLayout.timesOffset + 4 * (try #require(slot)), as: UInt32.self)
      #expect(IndexLayout.use(at: time).seconds == parts.manifest.lastUse)
    }
  }

  // MARK: Another reader

  /// The one that was written from the page, in Python.
  @Test(.enabled(if: Programs.installed("python3") != nil, "needs python3"), arguments: [[], ["--index"]])
  func anIndependentReaderFindsTheNewest(options: [String]) throws {
    struct Line: Decodable {
      var offset: Int
      var name: String
      var sequence: UInt64
      var payloadCRC32: String
      var lastUse: Int64?
    }
    let parts = try PackParts()
    let temporary = try TemporaryDirectory()
    let directory = temporary.path.appending("packs").string
    try parts.write(to: directory)
    let python = try #require(Programs.installed("python3"))
    let script = Checkout.url("Tools/Vectors/read_packs.py").path
    let output = try ChildProcess.runSuccessfully([python, script] + options + [directory]).text
    let lines = try output.split(separator: "\n").map { try JSONDecoder().decode(Line.self, from: Data($0.utf8)) }
    let newest = parts.manifest.records.filter { $0.fate == "newest" }
    #expect(lines.map(\.offset) == newest.map(\.offset) && lines.map(\.name) == newest.map(\.name))
    #expect(lines.map(\.payloadCRC32) == newest.map(\.payloadCRC32))
    #expect(lines.allSatisfy { $0.lastUse == (options.isEmpty ? nil : parts.manifest.lastUse) })
  }

  // MARK: The page

  @Test func theTablesOfThePageHaveNoHoles() throws {
    let rows = try Specification.text("PackFormat.md")
      .matches(of: #/\| ([0-9]+) \| ([0-9]+) \| [A-Za-z0-9]+ \| [ui]([0-9]+) LE \|/#)
    let fields = rows.map { (offset: Int($0.1) ?? -1, size: Int($0.2) ?? 0, bits: Int($0.3) ?? 0) }
    #expect(fields.allSatisfy { $0.size * 8 == $0.bits })
    // The record's header is the one table that begins with a crc.
    let start = try #require(fields.firstIndex { $0.offset == 0 && $0.size == 4 })
    var offset = 0
    for field in fields[start..<(start + 7)] {
      #expect(field.offset == offset)
      offset += field.size
    }
    #expect(offset == PackLayout.recordHeaderByteCount)
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
    #expect(try bytes == Array(PackParts().records[184..<248]))
  }
}
