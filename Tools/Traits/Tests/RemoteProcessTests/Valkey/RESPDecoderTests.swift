import NIOCore
import Testing

@testable import BlobCacheRemote

/// The decoding of a server's bytes.
@Suite struct RESPDecoderTests {
  private static func bulk(_ text: String) -> RESPValue { .bulk(ByteBuffer(string: text)) }

  static let values: [(String, RESPValue)] = [
    ("+OK\r\n", .simple("OK")), ("+\r\n", .simple("")), ("-ERR no\r\n", .error("ERR no")),
    (":1234\r\n", .integer(1234)), (":-1\r\n", .integer(-1)), (":+7\r\n", .integer(7)),
    ("$5\r\na\r\nbc\r\n", bulk("a\r\nbc")), ("$0\r\n\r\n", bulk("")), ("$-1\r\n", .null), ("*-1\r\n", .null),
    ("*0\r\n", .array([])), ("*2\r\n$1\r\na\r\n:2\r\n", .array([bulk("a"), .integer(2)])),
    ("*2\r\n*1\r\n:1\r\n*1\r\n*0\r\n", .array([.array([.integer(1)]), .array([.array([])])])),
    ("_\r\n", .null), ("#t\r\n", .boolean(true)), ("#f\r\n", .boolean(false)), (",1.5e3\r\n", .simple("1.5e3")),
    ("(349999\r\n", .simple("349999")), ("!5\r\nERR a\r\n", .error("ERR a")), ("=8\r\ntxt:abcd\r\n", bulk("abcd")),
    ("%1\r\n+a\r\n:1\r\n", .array([.simple("a"), .integer(1)])), ("~1\r\n:1\r\n", .array([.integer(1)])),
    (">2\r\n+message\r\n:1\r\n", .push([.simple("message"), .integer(1)])), (">0\r\n", .push([])),
    ("|1\r\n+ttl\r\n:9\r\n:1\r\n", .integer(1)), ("*1\r\n|1\r\n+a\r\n+b\r\n:2\r\n", .array([.integer(2)])),
    ("|0\r\n:3\r\n", .integer(3)),
  ]

  @Test(arguments: values) func eachValueIsRead(_ text: String, _ value: RESPValue) throws {
    var (decoder, bytes) = (RESPDecoder(), ByteBuffer(string: text + "+next\r\n"))
    #expect(try decoder.next(from: &bytes) == value)
    #expect(try decoder.next(from: &bytes) == .simple("next"))
    #expect(try decoder.next(from: &bytes) == nil)
    #expect(bytes.readableBytes == 0)
  }

  /// The division of bytes into pieces does not change the result.
  @Test(arguments: values) func divisionsChangeNothing(_ text: String, _ value: RESPValue) throws {
    let all = Array(text.utf8)
    for size in 1...all.count {
      var (decoder, bytes, found) = (RESPDecoder(), ByteBuffer(), [RESPValue]())
      for start in stride(from: 0, to: all.count, by: size) {
        bytes.writeBytes(all[start..<min(start + size, all.count)])
        while let value = try decoder.next(from: &bytes) { found.append(value) }
        bytes.discardReadBytes()
      }
      #expect(found == [value])
    }
  }

  @Test(arguments: [
    "", "x\r\n", "hello\r\n", "\u{16}\u{3}\r\n", ":\r\n", ":1a\r\n", ":99999999999999999999\r\n", "#x\r\n", "#\r\n",
    "$\r\n", "$-2\r\n", "$99999999\r\n", "$9223372036854775807\r\n", "$1\r\nab\r\n", "$?\r\n", "*-2\r\n",
    "*9999999\r\n",
    "%9223372036854775807\r\n", "*1000000000\r\n", "=2\r\nab\r\n", "=4\r\ntext\r\n", "+a\n", "\r\n", ":1\n",
  ])
  func otherBytesAreErrors(_ text: String) {
    guard !text.isEmpty else { return }
    #expect(throws: RESPSyntaxError.self) {
      var (decoder, bytes) = (RESPDecoder(), ByteBuffer(string: text))
      while try decoder.next(from: &bytes) != nil {}
      throw Failure("it was taken")
    }
  }

  @Test func whatIsKeptIsBounded() throws {
    var limits = RESPDecoder.Limits()
    (limits.depth, limits.lineByteCount, limits.bulkByteCount, limits.elementCount) = (3, 10, 5, 4)
    for (text, isTaken) in [
      ("*1\r\n*1\r\n*1\r\n:1\r\n", true), ("*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", false),
      ("+123456789\r\n", true), ("+12345678901\r\n", false), ("+12345678901", false), ("$5\r\n12345\r\n", true),
      ("$6\r\n123456\r\n", false), ("*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n", true),
      ("*2\r\n*1\r\n:1\r\n*2\r\n:1\r\n:1\r\n", false),
      ("%2\r\n:1\r\n:1\r\n:1\r\n:1\r\n", true), ("%3\r\n:1\r\n", false),
    ] {
      var (decoder, bytes) = (RESPDecoder(limits), ByteBuffer(string: text))
      if isTaken {
        #expect(try decoder.next(from: &bytes) != nil, "\(text)")
      } else {
        #expect(throws: RESPSyntaxError.self, "\(text)") { try decoder.next(from: &bytes) }
      }
    }
  }

  /// The total size of a value is limited, even if each string and the number of strings are below their limits.
  @Test func aValueIsBoundedInAll() throws {
    var limits = RESPDecoder.Limits()
    limits.byteCount = 20
    let text = "*2\r\n$5\r\n12345\r\n$5\r\n12345\r\n"
    var (decoder, bytes) = (RESPDecoder(limits), ByteBuffer(string: text + text))
    for _ in 0..<2 { #expect(try decoder.next(from: &bytes) != nil) }
    bytes = ByteBuffer(string: "*3\r\n$5\r\n12345\r\n$5\r\n12345\r\n$5\r\n")
    #expect(throws: RESPSyntaxError.self) { try decoder.next(from: &bytes) }
  }

  /// Decoding of arbitrary bytes ends, with a result that does not depend on their division.
  @Test(arguments: 0..<20) func randomBytesHarmNothing(_ seed: UInt64) throws {
    var random = SplitMix(seed: seed)
    let alphabet = Array("\r\n$*:+-_#%~>|=!0123456789a".utf8)
    for _ in 0..<400 {
      var bytes: [UInt8] = []
      for _ in 0..<Int.random(in: 1...6, using: &random) {
        bytes += Array(Self.values.randomElement(using: &random)!.0.utf8)
      }
      for _ in 0..<Int.random(in: 0...4, using: &random) {
        bytes[Int.random(in: bytes.indices, using: &random)] = alphabet.randomElement(using: &random)!
      }
      var (pieces, rest) = ([[UInt8]](), bytes[...])
      while !rest.isEmpty {
        let count = Int.random(in: 1...rest.count, using: &random)
        pieces.append(Array(rest.prefix(count)))
        rest = rest.dropFirst(count)
      }
      #expect(Self.found(in: [bytes]) == Self.found(in: pieces))
    }
  }

  /// Returns the values, with `nil` at the end if decoding fails.
  private static func found(in pieces: [[UInt8]]) -> [RESPValue?] {
    var (decoder, bytes, found) = (RESPDecoder(), ByteBuffer(), [RESPValue?]())
    for piece in pieces {
      bytes.writeBytes(piece)
      do {
        while let value = try decoder.next(from: &bytes) { found.append(value) }
      } catch {
        return found + [nil]
      }
    }
    return found
  }

  @Test func commandsAreArraysOfStrings() throws {
    #expect(String(buffer: RESPCommand("GET", "ä b").bytes) == "*2\r\n$3\r\nGET\r\n$4\r\nä b\r\n")
    let put = RESPCommand(["SET", "k"], value: ByteBuffer(string: "\r\n"), ["PX", "1"])
    #expect(String(buffer: put.bytes) == "*5\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n$2\r\nPX\r\n$1\r\n1\r\n")
  }
}
