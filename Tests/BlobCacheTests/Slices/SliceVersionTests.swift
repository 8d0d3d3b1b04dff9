import BlobCache
import BlobRecord
import BlobStore
import Foundation
import Posix
import TestSupport
import Testing

/// Spec/Semantics.md, Z8 to Z11: versions of an object, and the slices of outdated versions.
@Suite(.timeLimit(.minutes(30))) struct SliceVersionTests {
  let test: TestCache

  init() throws { test = try TestCache() }

  /// Z9: another validator or size removes all slices, and slices of two versions are never mixed.
  @Test(arguments: ["validator", "total", "slice"]) func anotherVersionDropsTheSlices(change: String) async throws {
    let cache = try test.cache()
    let old = Origin(payload(1000))
    try await cache.store(payload(5), for: "film@slices2")
    _ = try await old.slices(in: cache, sliceSize: 100).read(0..<1000)
    #expect(try await test.sliceKeys(cache).count == 10)
    let new = Origin(payload(change == "total" ? 1001 : 1000, 2))
    let slices = try new.slices(
      in: cache, sliceSize: change == "slice" ? 101 : 100, validator: change == "validator" ? "v2" : "v1")
    #expect(try await slices.read(0..<10) == new.bytes[0..<10])
    #expect(try await test.sliceKeys(cache).count == 1)
    #expect(try await slices.read(0..<1000) == new.bytes[0..<1000])
    #expect(try await cache.load("film@slices2")?.payload == payload(5))
  }

  /// Z9a: a handle of the old version still reads it, but stores nothing.
  @Test func theOldVersionIsReadAndNotStored() async throws {
    let cache = try test.cache()
    let (old, new) = (Origin(payload(1000)), Origin(payload(1000, 2)))
    let latch = Latch()
    let slices = try old.slices(in: cache, sliceSize: 100)
    _ = try await slices.read(0..<100)
    old.hold { await latch.wait() }
    let read = Task { try await slices.read(100..<200) }
    try await until { old.asked.count == 2 }
    let latest = try new.slices(in: cache, sliceSize: 100, validator: "v2")
    #expect(try await latest.read(0..<300) == new.bytes[0..<300])
    latch.open()
    #expect(try await read.value == old.bytes[100..<200])
    #expect(try await slices.read(200..<400) == old.bytes[200..<400])
    #expect(try await test.sliceKeys(cache).count == 3)
    #expect(try await latest.read(0..<300) == new.bytes[0..<300])
    #expect(new.asked == [0..<300])
  }

  /// Z10: slices that are removed during their fetch are returned, but not stored.
  @Test func whatIsRemovedMeanwhileIsNotStored() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(1000))
    let latch = Latch()
    let slices = try origin.slices(in: cache, sliceSize: 100)
    _ = try await slices.read(0..<100)
    origin.hold { await latch.wait() }
    let read = Task { try await slices.read(100..<300) }
    try await until { origin.asked.count == 2 }
    try await slices.remove()
    #expect(try await test.sliceKeys(cache, "film").isEmpty)
    latch.open()
    #expect(try await read.value == origin.bytes[100..<300])
    #expect(try await test.sliceKeys(cache).isEmpty)
    #expect(try await slices.read(0..<100) == origin.bytes[0..<100])
    // The manifest exists again.
    #expect(try await test.sliceKeys(cache, "film").count == 2)
  }

  /// Z10: if slices cannot be stored, the read throws the error or returns the bytes, as configured.
  @Test(arguments: [true, false], [true, false])
  func whatCannotBeStored(answers: Bool, isFirst: Bool) async throws {
    let cache = try test.cache()
    let origin = Origin(payload(1000))
    let slices = try origin.slices(in: cache, sliceSize: 100, options: SliceOptions(answersUnstored: answers))
    if !isFirst { _ = try await slices.read(0..<100) }
    test.disk.fail(.write, .noSpace)
    let read = Task { try await slices.read(100..<300) }
    if answers {
      #expect(try await read.value == origin.bytes[100..<300])
    } else {
      let error = await #expect(throws: BlobStoreError.self) { _ = try await read.value }
      #expect(error?.errno == .noSpace)
    }
    test.disk.fail(.write, nil)
    #expect(try await slices.read(100..<300) == origin.bytes[100..<300])
    // While the manifest cannot be written, the read fetches nothing, unless it may return bytes that are not stored.
    let failed: [Range<Int64>] = isFirst && !answers ? [] : [100..<300]
    #expect(origin.asked == (isFirst ? [] : [0..<100]) + failed + [100..<300])
    #expect(try await test.sliceKeys(cache, "film").count == (isFirst ? 3 : 4))
  }

  /// Z1: a slice that is damaged or has another size is fetched again, and so is the manifest.
  @Test func damagedSlicesAreFetchedAnew() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(300))
    _ = try await origin.slices(in: cache, sliceSize: 100).read(0..<300)
    for key in try await test.sliceKeys(cache, "film") {
      try test.flipLastByte(of: cache.filePath(for: BlobKey(key)).string.dropRoot(test))
    }
    #expect(try await origin.slices(in: cache, sliceSize: 100).read(0..<300) == origin.bytes)
    #expect(origin.asked == [0..<300, 0..<300])
    for key in try await test.sliceKeys(cache) { try await cache.store(payload(99), for: BlobKey(key)) }
    #expect(try await origin.slices(in: cache, sliceSize: 100).read(0..<300) == origin.bytes)
    #expect(origin.asked.count == 3)
  }

  /// Z1: each slice has its own expiration and use.
  @Test func slicesExpireByThemselves() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(300))
    let slices = try origin.slices(in: cache, sliceSize: 100, options: SliceOptions(ttl: .seconds(100)))
    _ = try await slices.read(0..<100)
    test.clock.advance(by: 60)
    _ = try await slices.read(100..<200)
    test.clock.advance(by: 60)
    _ = try await slices.read(0..<250)
    #expect(origin.asked.prefix(2) == [0..<100, 100..<200])
    // The last read makes two concurrent fetches.
    #expect(origin.asked.count == 4 && Set(origin.asked.dropFirst(2)) == [0..<100, 200..<300])
  }

  /// Z11: slices are not stored in the memory tier.
  @Test func slicesBypassMemory() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(300))
    _ = try await origin.slices(in: cache, sliceSize: 100).read(0..<300)
    for key in try await test.sliceKeys(cache) { #expect(cache.blobInMemory(for: BlobKey(key)) == nil) }
    _ = try await origin.slices(in: cache, sliceSize: 100).read(0..<300)
    for key in try await test.sliceKeys(cache) { #expect(cache.blobInMemory(for: BlobKey(key)) == nil) }
  }

  /// Handles that were released occupy no memory.
  @Test func objectsAreForgotten() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(300))
    do {
      let slices = try origin.slices(in: cache, sliceSize: 100)
      let later = try origin.slices(in: cache, sliceSize: 100, validator: "v2")
      _ = try await later.read(0..<1)
      #expect(cache.slicedObjectCount == 1)
      withExtendedLifetime(slices) {}
    }
    try await until { cache.slicedObjectCount == 0 }
  }

  /// Several readers read random ranges, cancel some of their reads, and remove the slices from time to time.
  @Test func manyReadersAtOnce() async throws {
    let cache = try test.cache()
    let origin = Origin(payload(50_000))
    let slices = try origin.slices(
      in: cache, sliceSize: 1000, options: SliceOptions(requestSize: 3000, readAhead: 4000))
    let seed = SeededGenerator.announcedSeed(for: "manyReadersAtOnce")
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<8 {
        group.addTask {
          var generator = SeededGenerator(seed: seed &+ UInt64(number))
          for _ in 0..<60 {
            let start = Int.random(in: 0..<50_000, using: &generator)
            let end = Int.random(in: start...min(50_000, start + 9000), using: &generator)
            let read = Task { try await slices.read(Int64(start)..<Int64(end)) }
            if Int.random(in: 0..<4, using: &generator) == 0 {
              read.cancel()
              _ = try? await read.value
            } else {
              #expect(try await read.value == origin.bytes[start..<end])
            }
            if Int.random(in: 0..<20, using: &generator) == 0 { try await slices.remove() }
          }
        }
      }
      try await group.waitForAll()
    }
    try await until { slices.fetchCount == 0 }
  }
}

extension String {
  fileprivate func dropRoot(_ test: TestCache) -> String { String(dropFirst(test.root.string.count + 1)) }
}
