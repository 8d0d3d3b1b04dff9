import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Y9: another process cannot remove pages of a mapped blob, which would end this process by SIGBUS.
@Suite(.timeLimit(.minutes(30))) struct MappedByOthersTests {
  private static func bytes(_ seed: UInt64) -> Data {
    var generator = SeededGenerator(seed: seed)
    return Data(generator.bytes(70_000))
  }

  /// The tool makes each change. Then it stores and removes more blobs of the size, whose files come from the bin.
  @Test(arguments: [
    ["store", "cache", "key"], ["store", "--visible", "cache", "key"], ["remove", "cache", "key"],
    ["remove", "cache", "key", "--purge"], ["remove", "cache", "--all"], ["collect", "cache", "--size-limit", "1"],
  ])
  func mappedBytesStay(change: [String]) throws {
    let tool = try Tool()
    let store = try BlobStore(directory: FilePath(tool.directory.url("cache").path))
    // Replacing blobs creates the bin, which the tool uses then.
    for seed in 1...3 as ClosedRange<UInt64> { try store.store(Self.bytes(seed), for: "key") }
    let reader = try #require(try store.openReader(for: "key"))
    func run(_ arguments: [String], _ input: Data = Data()) throws {
      let result = try ChildProcess.run(
        [Tool.executable.path] + arguments, in: tool.directory.url(""), input: input)
      #expect(result.status == 0, "\(arguments): \(result.message)")
    }
    try reader.withMappedBytes { mapped in
      try run(change, Self.bytes(4))
      for seed in 5...6 as ClosedRange<UInt64> {
        for key in ["other", "key"] { try run(["store", "cache", key], Self.bytes(seed)) }
        try run(["remove", "cache", "other"])
      }
      #expect(mapped.withUnsafeBytes { Data($0) } == Self.bytes(3))
    }
    #expect(try reader.read(0..<reader.byteCount) == Self.bytes(3))
    #expect(try store.load("key")?.payload == Self.bytes(6))
  }
}
