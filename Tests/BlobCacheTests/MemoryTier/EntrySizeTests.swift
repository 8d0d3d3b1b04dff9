import BlobRecord
import BlobStore
import Foundation
import TestSupport
import Testing

@testable import BlobCache
@testable import MemoryCache

/// The memory that an entry of the memory tier takes: Spec/Benchmarks.md, "Footprint".
@Suite struct EntrySizeTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  /// A hit reads one line of the processor's cache, because the key's text, the entry and the payload's storage are
  /// all that a slot refers to.
  @Test func aSlotIsALineOfTheProcessorsCache() {
    #expect(MemoryLayout<SlotContent<BlobKey, KeptBlob>>.stride == 64)
    #expect(MemoryLayout<SlotLinks>.stride == 16)
    #expect(MemoryLayout<IndexPlace>.stride == 8)
    #expect(MemoryLayout<SlotLifetime>.stride == 16)
  }

  /// A blob without locks and extended data has one object besides its payload and its key.
  @Test(arguments: [nil, Duration.seconds(600)], [true, false])
  func mostBlobsHaveOneObject(ttl: Duration?, isPacked: Bool) async throws {
    let cache = try test.cache { if isPacked { $0.store.packing = .upTo(8192) } }
    try await cache.store(payload(100), for: "a", ttl: ttl)
    for isLoaded in [false, true] {
      if isLoaded { _ = try #require(await cache.load("a")) }
      let entry = try #require(cache.engine.memory?.cache.peek("a")).entry
      #expect(entry.whole == nil)
      #if canImport(Glibc)
        #expect(try blockSize(of: entry) <= 88)
      #endif
      cache.removeAllFromMemory()
    }
  }

  #if canImport(Glibc)
    /// Returns the size of the block that malloc has allocated for an object.
    private func blockSize(of object: AnyObject) throws -> Int {
      let symbol = try #require(dlsym(nil, "malloc_usable_size"))
      let usableSize = unsafeBitCast(symbol, to: (@convention(c) (UnsafeMutableRawPointer?) -> Int).self)
      return usableSize(Unmanaged.passUnretained(object).toOpaque())
    }
  #endif

  /// Memory returns the header and the extended data that a load from disk returns, also with unusual fields.
  @Test(arguments: [BlobStore.RecordFormat.checksummed, .reference])
  func headersAreAsOnDisk(format: BlobStore.RecordFormat) async throws {
    let cache = try test.cache { $0.store.format = format }
    let store = cache.store
    try store.store(payload(10), for: "plain")
    try store.store(payload(0), for: "empty", ttl: .seconds(600))
    try store.store(payload(10), for: "locked", locks: .one)
    let hasExtended = format == .checksummed
    if hasExtended { try store.store(payload(10), for: "extended", extendedData: Data("type".utf8)) }
    for key in try store.records().compactMap(\.key) {
      let onDisk = try #require(try store.load(key))
      _ = try await cache.load(key)
      let inMemory = try #require(cache.blobInMemory(for: key))
      #expect(inMemory.header == onDisk.header)
      #expect(inMemory.extendedData == onDisk.extendedData)
      #expect(inMemory.key == key && inMemory.payload == onDisk.payload)
    }
    #expect(cache.memoryCount == (hasExtended ? 4 : 3))
  }
}
