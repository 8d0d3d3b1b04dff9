import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Digests are not keyed, so callers that let strangers choose keys may receive two keys with the same digest.
@Suite struct CollidingDigestTests {
  private let first = CollidingKeys.first
  private let second = CollidingKeys.second

  private func file(_ key: BlobKey) -> String { "k-/\(key.string)" }

  @Test func theKeysHaveOneDigest() throws {
    #expect(first != second)
    let digests = [first, second].map { NameDigest.digest(ofFileName: $0.string) }
    #expect(digests[0] == digests[1])
  }

  /// A change of one record never affects the record with the same digest.
  @Test(arguments: RecordNaming.allCases) func keysOfOneDigestAreTwoRecords(naming: RecordNaming) throws {
    let cache = try Cache()
    let store = try cache.store { $0.layout.naming = naming }
    let (one, two) = (payload(1000, 1), payload(1000, 2))
    for _ in 0..<3 {
      try store.store(one, for: first)
      try store.store(two, for: second, ttl: .seconds(100))
      #expect(try store.load(first)?.payload == one)
      #expect(try store.load(second)?.payload == two)
      #expect(try store.lock(first) == .done)
      #expect(try store.header(for: second)?.refCount == 0)
      #expect(try store.removeAll(.unlocked).files == 1)
      #expect(try store.load(second) == nil)
      #expect(try store.load(first)?.payload == one)
      #expect(try store.remove(second) == .notFound)
      #expect(try store.remove(first) == .done)
    }
    #expect(try store.verify().damagedFiles == 0)
  }

  #if os(Linux)
    enum Displacement: CaseIterable, Sendable { case removal, replacement, exchange, expiry }

    /// Spec/Recycling.md, "The order of digests". After a power cut, a name may refer to the former content of its
    /// file. The record of another key with the same digest would be accepted as sound there.
    @Test(arguments: Displacement.allCases) func fileIsNotOverwrittenWithAnotherRecordOfItsDigest(
      displacement: Displacement
    ) throws {
      let bench = try RecyclingBench()
      let store = try bench.store()
      try store.store(payload(1000), for: first, ttl: .seconds(60))
      var dead = try #require(try bench.inode(file(first)))
      switch displacement {
      case .removal: try store.remove(first)
      case .replacement: try store.store(payload(1000), for: first)
      case .exchange:
        try store.store(payload(1000), for: first)
        dead = try #require(try bench.inode(file(first)))
        try store.store(payload(1000), for: first)
      case .expiry:
        bench.cache.clock.advance(by: 100)
        #expect(try store.collect().expired == 1)
      }
      let name = try #require(try bench.bin().first { try bench.inode(".recycled/" + $0) == dead })
      try store.store(payload(1000, 2), for: second)
      #expect(try bench.inode(file(second)) != dead)
      #expect(try bench.inode(".recycled/" + name) == dead)
      #expect(try store.load(second)?.payload == payload(1000, 2))
      // The file still belongs to the first key.
      try store.store(payload(1000, 3), for: first)
      #expect(try bench.inode(file(first)) == dead)
      #expect(try store.load(first)?.payload == payload(1000, 3))
      #expect(try store.load(second)?.payload == payload(1000, 2))
    }
  #endif
}
