import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// A checkpoint that cannot be read, is damaged, or was forged.
@Suite struct HostileCheckpointTests: CheckpointSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// If the medium has a bad block, all chunks are walked, and the file is removed when a collection frees a chunk.
  @Test func oneThatCannotBeReadHarmsNobody() throws {
    try makeCheckpoint()
    try NextBoot.begin(in: cache.root.string)
    let trace = CallTrace()
    trace.onCall { call, path in
      call == .read && path.lastComponent?.string == PackCheckpoint.name ? .fail(.ioError) : nil
    }
    let store = try store(files: trace.files)
    for number in 0..<Self.count { #expect(try store.load(Self.key(number))?.payload == Self.payload(number)) }
    for number in 0..<100 { try store.remove(Self.key(number)) }
    #expect(try store.collect().failed == 0)
    let removed = try #require(trace.take().last { $0.call == .unlink && $0.path == checkpoint })
    #expect(removed.call == .unlink)
    trace.onCall(nil)
    try expectAfterBoot(Self.gone(0..<100))
  }

  enum Damage: CaseIterable {
    case noFile, empty, cutOff, header, version, salts, buckets, link, sparse
  }

  /// If bits of the file are damaged, all chunks are walked, or those whose salts do not match.
  @Test(arguments: Damage.allCases) func aDamagedOneIsNotBelieved(damage: Damage) throws {
    try makeCheckpoint()
    var content = try bytes(ofFile: checkpoint)
    let offset: Int? =
      switch damage {
      case .header: CheckpointLayout.seedOffset
      case .version: CheckpointLayout.versionOffset
      case .salts: CheckpointLayout.coverOffset(pack: 0, chunk: 1)
      case .buckets: CheckpointLayout.bucketsOffset(packs: 1) + 70
      case .noFile, .empty, .cutOff, .link, .sparse: nil
      }
    if let offset { content[offset] ^= 0x10 }
    try FileManager.default.removeItem(atPath: checkpoint)
    switch damage {
    case .noFile: break
    case .empty: try Data().write(to: URL(filePath: checkpoint))
    case .cutOff: try Data(content.dropLast(64)).write(to: URL(filePath: checkpoint))
    case .link: try FileManager.default.createSymbolicLink(atPath: checkpoint, withDestinationPath: "p-0")
    case .sparse:
      let header = CheckpointHeader(
        sequence: 1, seed: 2, bucketCount: 1024 * PackLayout.mostRecords, packCount: 1024, bucketsCRC: 3)
      try Data(header.encoded).write(to: URL(filePath: checkpoint))
      truncate(checkpoint, off_t(header.fileByteCount))
    default: try Data(content).write(to: URL(filePath: checkpoint))
    }
    try expectAfterBoot([:])
    // The next collection frees chunks in spite of the damaged file.
    do {
      let writer = try store()
      for number in 0..<100 { try writer.remove(Self.key(number)) }
    }
    try collect()
    try expectAfterBoot(Self.gone(0..<100))
  }

  /// A forged file with a correct checksum, which requires write access: a load never returns another key's blob, and
  /// the process does not crash.
  @Test func aForgedOneHarmsNobody() throws {
    let seed = SeededGenerator.announcedSeed(for: "HostileCheckpointTests")
    var generator = SeededGenerator(seed: seed)
    for _ in 0..<20 {
      let run = try HostileCheckpointTests()
      try run.makeCheckpoint()
      var content = try bytes(ofFile: run.checkpoint)
      let decoded = CheckpointHeader(decoding: content.span.bytes)
      let header = try #require(decoded)
      let start = CheckpointLayout.bucketsOffset(packs: 1)
      for _ in 0..<Int.random(in: 1...200, using: &generator) {
        let offset = Int.random(in: start..<content.count, using: &generator)
        let another = content[start + (offset + 64 - start) % (content.count - start)]
        content[offset] = Bool.random(using: &generator) ? .random(in: 0...255, using: &generator) : another
      }
      let forged = CheckpointHeader(
        sequence: .random(in: 0...1000, using: &generator), seed: header.seed, bucketCount: header.bucketCount,
        packCount: 1,
        bucketsCRC: CRC32.checksum(of: content.span.bytes.extracting(start..<content.count)))
      content.replaceSubrange(0..<CheckpointLayout.headerByteCount, with: forged.encoded)
      try Data(content).write(to: URL(filePath: run.checkpoint))
      try NextBoot.begin(in: run.cache.root.string)
      let store = try run.store()
      for number in 0..<Self.count {
        let found = try? store.load(Self.key(number))
        #expect(found == nil || found?.payload == Self.payload(number), "seed \(seed): \(number)")
        try? store.store(Self.payload(number, 1), for: Self.key(number))
      }
      _ = try? store.collect()
    }
  }
}
