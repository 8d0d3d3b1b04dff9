import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Copies of directories with packs: with holes, incomplete, and on a full volume. `SparseCopyTests` uses real volumes.
@Suite struct PackedCopyTests: PackedSuite {
  let cache: Cache
  let copy: Cache

  init() throws {
    cache = try Cache()
    copy = try Cache()
  }

  private static let numbers = 0..<200
  private static func key(_ number: Int) -> BlobKey { BlobKey("key \(number)") }

  private func open(_ cache: Cache, files: Files = Files()) throws -> BlobStore {
    try cache.store(files: files) {
      $0.packing = .upTo(8192)
      $0.packChunkByteCount = 16 << 10
      $0.leastPackIndexEntryCount = 100
      $0.limits.size = 1 << 30
    }
  }

  /// Stores records, of which some are replaced, removed and moved, and copies the directory with holes.
  private func makeCopy() throws {
    let store = try open(cache)
    for round in 0..<2 {
      for number in Self.numbers {
        try store.store(payload(100 + number + round), for: Self.key(number), ttl: .seconds(100_000))
      }
    }
    for number in Self.numbers where number % 10 == 0 { try store.remove(Self.key(number)) }
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    try store.collect(options)
    try? FileManager.default.removeItem(atPath: copy.root.string)
    #if os(Linux)
      try ChildProcess.runSuccessfully(["cp", "-a", "--sparse=always", cache.root.string, copy.root.string])
    #else
      try ChildProcess.runSuccessfully(["cp", "-a", cache.root.string, copy.root.string])
    #endif
  }

  private func expected(_ number: Int) -> Data? { number % 10 == 0 ? nil : payload(101 + number) }

  private func expectAll(in store: BlobStore, _ comment: Comment? = nil) throws {
    for number in Self.numbers {
      #expect(try store.load(Self.key(number))?.payload == expected(number), comment)
    }
  }

  @Test func aCopyWithHolesIsComplete() throws {
    try makeCopy()
    let copied = try open(copy)
    try expectAll(in: copied)
    #expect(try copied.usage().records == 180)
    for number in Self.numbers where number % 2 == 0 { try copied.store(payload(50), for: Self.key(number)) }
    for number in Self.numbers where number % 2 == 1 { #expect(try copied.touch(Self.key(number)) != .notFound) }
    try copied.collect()
    #expect(try copied.usage().records == 200)
    for number in Self.numbers {
      #expect(try copied.load(Self.key(number))?.payload == (number % 2 == 0 ? payload(50) : expected(number)))
    }
    try copied.checkInvariants()
    // The original is unchanged.
    try expectAll(in: open(cache))
    #expect(try open(cache).usage().records == 180)
  }

  /// Where no block can be allocated, the packs cannot be mapped. Loads and changes report that, and nothing is lost.
  @Test func aFullVolumeIsAnError() throws {
    try makeCopy()
    let trace = CallTrace()
    trace.onCall { call, path in
      [.allocate, .allocateRange].contains(call) && path.string.contains(".packs") ? .fail(.noSpace) : nil
    }
    let copied = try open(copy, files: trace.files)
    for number in Self.numbers {
      expect(.foreignFile) { _ = try copied.load(Self.key(number)) }
      expect(.foreignFile) { try copied.store(payload(50), for: Self.key(number)) }
      expect(.foreignFile) { _ = try copied.remove(Self.key(number)) }
    }
    trace.onCall(nil)
    let later = try open(copy)
    try expectAll(in: later)
    for number in Self.numbers { try later.store(payload(60), for: Self.key(number)) }
    for number in Self.numbers { #expect(try later.load(Self.key(number))?.payload == payload(60)) }
    try later.checkInvariants()
  }

  enum Part: String, CaseIterable {
    case pack = ".packs/p-0"
    case index = ".packs/index"
    case checkpoint = ".packs/checkpoint"
    case control = ".blobcache"
    case uses = ".blobcache-uses"
  }

  /// A copy that has ended early, at any of several places. A load finds the blob or nothing, or reports the damage.
  @Test(arguments: Part.allCases, [0, 1, 50, 99]) func anIncompleteCopyHarmsNobody(part: Part, percent: Int) throws {
    try makeCopy()
    guard let size = try copy.state(part.rawValue)?.size else { return #expect(part == .checkpoint) }
    try check(truncate(copy.path(part.rawValue), off_t(size * Int64(percent) / 100)), "truncate")
    let copied = try open(copy)
    for number in Self.numbers {
      do throws(BlobStoreError) {
        let found = try copied.load(Self.key(number))?.payload
        #expect(found == nil || found == expected(number))
      } catch {
        #expect([.damaged, .foreignFile].contains(error.code), "\(error)")
      }
    }
    // The index and the control file are made again, and nothing is lost with them.
    if part != .pack { try expectAll(in: copied, "\(part) \(percent)") }
    // A pack without its head stays until somebody removes it, and the keys of its records cannot be changed before.
    if part == .pack, percent < 50 { try FileManager.default.removeItem(atPath: copy.path(part.rawValue)) }
    let later = try open(copy)
    for number in Self.numbers { try later.store(payload(9000), for: Self.key(number)) }
    for number in Self.numbers { #expect(try later.load(Self.key(number))?.payload == payload(9000)) }
    try later.collect()
    try expectAll(in: open(cache))
  }
}
