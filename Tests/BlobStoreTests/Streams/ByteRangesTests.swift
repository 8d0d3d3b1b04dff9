import BlobStore
import TestSupport
import Testing

/// Spec/Semantics.md, Y12: byte ranges in the syntax of HTTP.
@Suite struct ByteRangesTests {
  /// Valid ranges, and their intersections with a payload of ten bytes.
  @Test(
    arguments: [
      ("0-0", [0..<1]), ("0-9", [0..<10]), ("0-10", [0..<10]), ("3-7", [3..<8]), ("9-", [9..<10]), ("0-", [0..<10]),
      ("-1", [9..<10]), ("-10", [0..<10]), ("-11", [0..<10]), ("0-0,-1", [0..<1, 9..<10]),
      (" 1-2 ,\t4- ", [1..<3, 4..<10]),
      (",1-2,,", [1..<3]), ("5-5,0-3", [5..<6, 0..<4]), ("0-99999999999999999999999999", [0..<10]),
      ("007-08", [7..<9]), ("-99999999999999999999", [0..<10]),
      // These ranges are outside the payload.
      ("10-", []), ("10-11", []), ("-0", []), ("99999999999999999999-", []), ("9223372036854775807-", []),
      ("10-,2-3", [2..<4]),
    ] as [(String, [Range<Int64>])])
  func rangesAreResolved(text: String, expected: [Range<Int64>]) throws {
    let ranges = try #require(ByteRanges(text))
    #expect(ranges.resolved(byteCount: 10) == expected)
    #expect(ByteRanges(headerValue: "bytes=" + text) == ranges)
    #expect(ByteRanges(headerValue: "Bytes=" + text) == ranges)
    #expect(ranges.resolved(byteCount: 0).isEmpty)
  }

  /// Invalid ranges are distinguished from unsatisfiable ones.
  @Test(
    arguments: [
      "", " ", ",", "-", "--1", "1", "1-0", "9-8", "a-b", "0-a", "+0-1", "0-+1", "0x1-2", "1.0-2", "0-1-2", "0 - 1",
      "0-1;2-3", "0-1,x", "١-٢", "−1",
    ])
  func whatIsNoRangeIsNil(text: String) {
    #expect(ByteRanges(text) == nil)
    #expect(ByteRanges(headerValue: "bytes=" + text) == nil)
  }

  @Test(arguments: ["", "bytes", "0-1", "byte=0-1", "items=0-1", " bytes=0-1", "bytes =0-1"])
  func otherUnitsAreNil(text: String) {
    #expect(ByteRanges(headerValue: text) == nil)
  }

  /// No arithmetic overflows with the largest payload.
  @Test func rangesAtTheLargestPayload() {
    let largest = Int64.max - 64
    #expect(ByteRanges("0-")?.resolved(byteCount: largest) == [0..<largest])
    #expect(ByteRanges("0-9223372036854775807")?.resolved(byteCount: .max) == [0..<Int64.max])
    #expect(ByteRanges("-9223372036854775807")?.resolved(byteCount: largest) == [0..<largest])
  }

  /// Ranges are compared with a model, which is a predicate for positions.
  @Test func randomRangesAreThoseOfTheModel() throws {
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "randomRangesAreThoseOfTheModel"))
    for _ in 0..<2000 {
      let byteCount = Int64.random(in: 0...12, using: &generator)
      let (first, last) = (Int64.random(in: 0...14, using: &generator), Int64.random(in: 0...14, using: &generator))
      let isThere: (Int64) -> Bool
      let text: String
      switch Int.random(in: 0..<3, using: &generator) {
      case 0: (text, isThere) = ("\(first)-\(last)", { first <= $0 && $0 <= last })
      case 1: (text, isThere) = ("\(first)-", { first <= $0 })
      default: (text, isThere) = ("-\(first)", { $0 >= byteCount - first })
      }
      let found = ByteRanges(text)?.resolved(byteCount: byteCount).map(Array.init)
      let expected = (0..<byteCount).filter(isThere)
      if text == "\(first)-\(last)", last < first {
        #expect(found == nil, "\(text)")
      } else {
        #expect(found == (expected.isEmpty ? [] : [expected]), "\(text) of \(byteCount)")
      }
    }
  }
}
