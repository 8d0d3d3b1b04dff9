import BlobRecord
import Foundation
import TestSupport
import Testing

/// Spec/CommandLine.md, `load`: payloads with sizes around every boundary, whole and in ranges, to pipes and files.
@Suite(.timeLimit(.minutes(30))) struct LoadSizeTests {
  let tool: Tool

  init() throws { tool = try Tool(storesFiles: true) }

  private static let sizes = [0, 1, 63, 64, 65, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 1]

  private func bytes(_ count: Int) -> Data {
    var generator = SeededGenerator(seed: UInt64(count))
    return Data(generator.bytes(count))
  }

  private func output() throws -> Data { try Data(contentsOf: tool.directory.url("out")) }

  @Test(arguments: sizes) func loadsAreThoseOfTheModel(size: Int) async throws {
    let payload = bytes(size)
    #expect(try await tool.run("store", "cache", "key", input: payload).status == 0)
    #expect(try await tool.run("load", "cache", "key").output == payload)
    #expect(try await tool.run("load", "cache", "key", "--output", "out").status == 0)
    #expect(try output() == payload)
    // The first and last byte of each range, compared with the model.
    for (first, last) in [(0, 0), (0, size / 2), (63, 64), (size / 2, size), (size - 1, size - 1)] where first >= 0 {
      let expected = payload.dropFirst(first).prefix(last - first + 1)
      let toPipe = try await tool.run("load", "cache", "key", "--range", "\(first)-\(last)")
      #expect(toPipe.status == (expected.isEmpty ? 1 : 0) && toPipe.output == expected, "\(first)-\(last)")
    }
    for (range, expected) in [("\(size / 3)-", payload.dropFirst(size / 3)), ("-4096", payload.suffix(4096))] {
      let run = try await tool.run("load", "cache", "key", "--range", range, "--output", "out")
      #expect(run.status == (expected.isEmpty ? 1 : 0))
      if !expected.isEmpty { #expect(try output() == expected) }
    }
  }

  /// A sparse record with ranges at offsets beyond 32 bits.
  @Test func rangesOfFiveGibibytes() async throws {
    let size = 5 << 30
    #expect(try await tool.run("store", "cache", "key", input: Data()).status == 0)
    let url = tool.directory.url("cache/7c/key")
    let header = RecordHeader(updateTime: UInt64(Tool.now), payloadSize: UInt64(size))
    try Data(header.encodedBytes).write(to: url)
    #expect(truncate(url.path, 64 + size) == 0)
    let file = try FileHandle(forWritingTo: url)
    for end in [4 << 30, size] {
      try file.seek(toOffset: UInt64(64 + end - 3))
      try file.write(contentsOf: Data([1, 2, 3]))
    }
    try file.close()
    #expect(try await tool.run("load", "cache", "key", "--range", "-4").output == Data([0, 1, 2, 3]))
    let start = (4 << 30) - 3
    #expect(
      try await tool.run("load", "cache", "key", "--range", "\(start)-\(start + 3)").output == Data([1, 2, 3, 0]))
    #expect(try await tool.run("load", "cache", "key", "--range", "\(size - 1)-", "--output", "out").status == 0)
    #expect(try output() == Data([3]))
    #expect(try await tool.run("load", "cache", "key", "--range", "\(size)-").status == 1)
  }

  #if os(Linux)
    /// A payload that fits into the buffer is read once. A larger one is read twice, because it is verified first.
    @Test(arguments: [(1 << 20, 1), (4 << 20, 1), ((4 << 20) + 1, 2)]) func bytesThatAreRead(
      size: Int, times: Int
    )
      async throws
    {
      try await tool.store("", for: "empty")
      #expect(try await tool.run("store", "cache", "key", input: bytes(size)).status == 0)
      // The count includes a shell and its children.
      let script = #""$0" "$@" >/dev/null && grep rchar /proc/$$/io"#
      func count(_ key: String) async throws -> Int {
        let run = try await tool.run("load", "cache", key, wrapper: ["bash", "-c", script])
        return try #require(Int(run.text.split(separator: " ").last?.dropLast() ?? ""), "\(run.error)")
      }
      let read = try await count("key") - count("empty")
      // The other reads of the two processes differ by a few bytes.
      #expect((size * times - size / 4..<size * times + size / 2).contains(read))
    }
  #endif
}
