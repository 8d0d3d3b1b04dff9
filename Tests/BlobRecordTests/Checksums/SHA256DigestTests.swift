import BlobRecord
import Foundation
import TestSupport
import Testing

@Suite struct SHA256DigestTests {
  /// NIST's examples for FIPS 180-4, and the digest of empty input.
  @Test(arguments: [
    ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
    ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    (
      "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"
    ),
    (
      "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"
    ),
  ])
  func digestsAreTheStandards(message: String, digest: String) {
    #expect(hexadecimal(SHA256Digest.digest(of: Array(message.utf8).span.bytes)) == digest)
  }

  @Test func aMillionLettersGiveTheStandardsDigest() {
    let message = [UInt8](repeating: UInt8(ascii: "a"), count: 1_000_000)
    #expect(
      hexadecimal(SHA256Digest.digest(of: message.span.bytes))
        == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0")
  }

  /// Compares all lengths around the ends of the first blocks, and random ones, with another implementation.
  @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/env"), "there is no env(1)"))
  func digestsAreHashlibs() throws {
    let seed = SeededGenerator.announcedSeed(for: "digestsAreHashlibs")
    var generator = SeededGenerator(seed: seed)
    let lengths = Array(0...200) + (0..<50).map { _ in Int.random(in: 201...5000, using: &generator) }
    let messages = lengths.map { generator.bytes($0) }
    let script = """
      import hashlib, sys
      for line in sys.stdin: print(hashlib.sha256(bytes.fromhex(line.strip())).hexdigest())
      """
    let input = messages.map { hexadecimal($0) + "\n" }.joined()
    guard let output = try outputOfPython(script, input: input) else {
      print("there is no python3: not compared with hashlib")
      return
    }
    let expected = output.split(separator: "\n").map(String.init)
    try #require(expected.count == messages.count)
    for (message, digest) in zip(messages, expected) {
      try #require(
        hexadecimal(SHA256Digest.digest(of: message.span.bytes)) == digest, "\(message.count) bytes, seed \(seed)")
    }
  }

  /// Pieces of all sizes around the size of a block, and empty ones.
  @Test func piecesGiveTheDigestOfTheWhole() throws {
    let seed = SeededGenerator.announcedSeed(for: "piecesGiveTheDigestOfTheWhole")
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<300 {
      let pieces = (0..<Int.random(in: 0...8, using: &generator)).map { _ in
        generator.bytes(Int.random(in: 0...200, using: &generator))
      }
      var hasher = SHA256Hasher()
      for piece in pieces { hasher.update(piece.span.bytes) }
      let digest = hasher.finalize()
      let whole = pieces.flatMap { $0 }
      let expected = SHA256Digest.digest(of: whole.span.bytes)
      try #require(digest == expected, "\(pieces.map(\.count)), seed \(seed)")
    }
  }

  /// Returns `nil` if python3 is not installed.
  private func outputOfPython(_ script: String, input: String) throws -> String? {
    guard let python = Programs.installed("python3") else { return nil }
    return try ChildProcess.runSuccessfully([python, "-c", script], input: Data(input.utf8)).text
  }

  private func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { (($0 < 16) ? "0" : "") + String($0, radix: 16) }.joined()
  }
}
