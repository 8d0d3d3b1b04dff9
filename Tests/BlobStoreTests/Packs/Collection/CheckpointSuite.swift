import BlobRecord
import BlobStore
import Foundation
import Posix
import TestSupport
import Testing

/// Tests of a cache whose collections write checkpoints of its packs.
protocol CheckpointSuite: PackedSuite {}

extension CheckpointSuite {
  /// Returns a store whose collections write a checkpoint after a few new records.
  func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try storeOfSmallChunks(files: files) {
      $0.leastCheckpointByteCount = 1
      change(&$0)
    }
  }

  static func key(_ number: Int) -> BlobKey { BlobKey("key \(number)") }

  /// Payloads of a thousand bytes, so that a chunk contains sixteen records.
  static func payload(_ number: Int, _ version: Int = 0) -> Data {
    BlobStoreTests.payload(1000, UInt64(number + 10_000 * version))
  }

  static var count: Int { 400 }

  /// Stores records by a process that ends, and collects by another process.
  func makeCheckpoint(files: Files = Files()) throws {
    let writer = try store()
    for number in 0..<Self.count { try writer.store(Self.payload(number), for: Self.key(number)) }
    try collect(files: files)
  }

  func collect(files: Files = Files()) throws { #expect(try store(files: files).collect().failed == 0) }

  var checkpoint: String { cache.path(".packs/checkpoint") }

  func expectSoundPacks(sourceLocation: SourceLocation = #_sourceLocation) throws {
    let audit = try PackAudit(of: cache.root)
    #expect(audit.flaws == [], sourceLocation: sourceLocation)
    #expect(audit.current.mapValues(\.address) == audit.newest.mapValues(\.address), sourceLocation: sourceLocation)
  }

  static func gone(_ numbers: Range<Int>) -> [Int: Data?] {
    Dictionary(uniqueKeysWithValues: numbers.map { ($0, Data?.none) })
  }

  /// - Returns: The number of reads of packs by the first lookup.
  @discardableResult
  func expectAfterBoot(
    _ expected: [Int: Data?], sourceLocation: SourceLocation = #_sourceLocation
  ) throws -> Int {
    try NextBoot.begin(in: cache.root.string)
    let trace = CallTrace()
    let store = try store(files: trace.files)
    #expect(try store.load("none") == nil, sourceLocation: sourceLocation)
    let reads = trace.take().count { $0.call == .read && $0.path.hasSuffix("/p-0") }
    for number in 0..<Self.count + 100 {
      let payload = expected[number] ?? (number < Self.count ? Self.payload(number) : nil)
      #expect(try store.load(Self.key(number))?.payload == payload, "\(number)", sourceLocation: sourceLocation)
    }
    try expectSoundPacks(sourceLocation: sourceLocation)
    return reads
  }
}
