import BlobRecord
import Foundation
import TestSupport
import Testing

/// The examples in Spec/RecordFormat.md agree with the code.
@Suite struct RecordFormatTests {
  /// Returns the bytes of the `hex` block, whose lines contain an offset, bytes, and a description after two spaces.
  static func example() throws -> [UInt8] {
    let text = try Specification.text("RecordFormat.md")
    let block = try #require(text.firstMatch(of: #/```hex\n([^`]*)```/#)).1
    var bytes: [UInt8] = []
    for line in block.split(separator: "\n") {
      let match = try #require(line.firstMatch(of: #/^([0-9A-F]{2})  ((?:[0-9A-F]{2} )*[0-9A-F]{2})  /#), "\(line)")
      try #require(Int(match.1, radix: 16) == bytes.count, "\(line)")
      bytes += match.2.split(separator: " ").compactMap { UInt8($0, radix: 16) }
    }
    return bytes
  }

  @Test func theExampleIsTheRecordItDescribes() throws {
    let bytes = try Self.example()
    #expect(bytes.count == 73)
    let header = try RecordHeader(decoding: bytes)
    var expected = RecordHeader(ttl: 60, updateTime: 1_700_000_000, payloadSize: 9)
    expected.keyDigest = 0xF9B6_F5AE_F153_7876
    expected.payloadChecksum = 0x85B2_148E
    #expect(header == expected)
    #expect(header.crc == 0x89B4_78AD)

    let path = try RecordLayout().path(for: "a/b/c.png")
    #expect(path.relative == "a%/a%2Fb%2Fc.png")
    #expect(path.digest % 4096 == 2166)
    let facts = RecordFacts(nameDigest: path.digest)
    #expect(header.breach(facts, payload: Array("a/b/c.png".utf8)) == nil)
    #expect(RecordJudge().judge(bytes, facts, payload: Array(bytes.dropFirst(64))) == .sound(header))
  }

  @Test func theExampleIsAVector() throws {
    #expect(try Self.example() == Specification.bytes("vectors/records/a%/a%2Fb%2Fc.png"))
  }

  @Test func theTableOfErrorsIsComplete() throws {
    let errors: [RecordError] = [
      .magicMismatch(found: 0), .headerAlignmentMismatch, .wrongHeaderSize(found: 0),
      .wrongPayloadSize(stated: 0, found: 0), .invalidHeaderCRC(stated: 0, computed: 0),
      .notEnoughDataToGetHeader(byteCount: 0), .recordIsStreamAndBusy, .internalInconsistency,
      .payloadChecksumMismatch(stated: 0, computed: 0), .keyMismatch(stated: 0, expected: 0),
      .unsupportedFlags([]), .writableByOthers, .invalidExtension, .abandonedStream,
    ]
    let rows = try Specification.text("RecordFormat.md").matches(of: #/\| ([0-9]{3}) \| `([A-Za-z]+)` \|/#)
    #expect(Set(rows.map { "\($0.1) \($0.2)" }) == Set(errors.map { "\($0.code) \($0.name)" }))
    #expect(rows.count == errors.count)
  }

  @Test func theTableOfTheHeaderHasNoHoles() throws {
    let rows = try Specification.text("RecordFormat.md")
      .matches(of: #/\| ([0-9]+) \| ([0-9]+) \| [A-Za-z0-9]+ \| u([0-9]+) LE \|/#)
    var offset = 0
    for row in rows {
      let size = try #require(Int(row.2))
      #expect(Int(row.1) == offset)
      #expect(Int(row.3) == size * 8)
      offset += size
    }
    #expect(rows.count == 12 && offset == RecordHeader.byteCount)
  }
}
