import BlobCache
import Foundation
import SystemPackage
import TestSupport
import Testing

/// A view of the cache that stores values instead of bytes.
@Suite struct ValueTests {
  struct Cover: Codable, Sendable, Equatable {
    var title: String
    var width: Int
  }

  let test: TestCache
  let cache: BlobCache

  init() throws {
    test = try TestCache()
    cache = try test.cache()
  }

  @Test func aValueComesBack() async throws {
    let covers = cache.values(of: Cover.self)
    let cover = Cover(title: "é", width: 3)
    try await covers.store(cover, for: "a", ttl: .seconds(60))
    #expect(try await covers.value(for: "a") == cover)
    #expect(try await covers.value(for: "b") == nil)
    #expect(try await cache.load("a")?.header.ttl == 60)
    #expect(try await covers.remove("a") == .done)
    #expect(try await covers.value(for: "a") == nil)
  }

  @Test func whatDoesNotDecodeIsDamage() async throws {
    var events = cache.events.makeAsyncIterator()
    try await cache.store(Data("{}".utf8), for: "a")
    let error = await expect(.undecodableValue) { _ = try await cache.values(of: Cover.self).value(for: "a") }
    #expect(error?.key == "a")
    #expect(error?.cause is DecodingError)
    while let event = await events.next() {
      if case .damaged = event.kind { break }
    }
  }

  @Test func whatDoesNotDecodeIsProducedAnewOnce() async throws {
    try await cache.store(Data("{}".utf8), for: "a")
    let covers = cache.values(of: Cover.self)
    let produced = Counter()
    let latch = Latch()
    try await withThrowingTaskGroup(of: Cover.self) { group in
      for _ in 0..<10 {
        group.addTask {
          try await covers.value(for: "a") {
            produced.increment()
            await latch.wait()
            return Cover(title: "new", width: 1)
          }
        }
      }
      try await until { cache.waiterCount(of: "a") == 10 }
      latch.open()
      for try await cover in group { #expect(cover.title == "new") }
    }
    #expect(produced.count == 1)
    #expect(try await covers.value(for: "a")?.title == "new")
  }

  /// A lock applies to the key's record, whichever blob it contains.
  @Test(arguments: [(0, false, 0), (0, true, 1), (2, false, 2), (2, true, 2)])
  func whatTakesThePlaceOfOneThatDoesNotDecodeHasItsLocks(before: Int, isLocked: Bool, after: Int) async throws {
    for isInMemory in [true, false] {
      let key = BlobKey("in memory: \(isInMemory)")
      try await cache.store(Data("{}".utf8), for: key)
      for _ in 0..<before { try await cache.lock(key) }
      if isInMemory { _ = try await cache.load(key) } else { cache.removeAllFromMemory() }
      let covers = cache.values(of: Cover.self)
      let cover = Cover(title: "new", width: 1)
      #expect(
        try await covers.value(for: key, options: ProductionOptions(locks: isLocked ? .keepOrOne : .keep)) { cover }
          == cover)
      #expect(try await cache.header(for: key).map { Int($0.refCount) } == after)
      try await cache.unlock(key, force: true)
    }
  }

  /// The blob is in memory, so that it is found twice: before the load is queued, and at its turn. The two views of
  /// one key share no state.
  @Test(arguments: [false, true]) func whatAnotherViewProducesIsNoAnswerUnlessItDecodes(isRefresh: Bool) async throws {
    let numbers = cache.values(of: Int.self)
    let covers = cache.values(of: Cover.self)
    let cover = Cover(title: "b", width: 1)
    var options = ProductionOptions(ttl: .seconds(600))
    options.refreshesAfter = isRefresh ? .seconds(60) : nil
    if isRefresh {
      try await numbers.store(1, for: "a", ttl: .seconds(600))
      test.clock.advance(by: 100)
    }
    let (begun, latch) = (Latch(), Latch())
    let first = Task { [options] in
      try await numbers.value(for: "a", options: options) {
        begun.open()
        await latch.wait()
        return 2
      }
    }
    await begun.wait()
    let second = Task { try await covers.value(for: "a") { cover } }
    // The second task waits for the first producer, or has not started yet.
    try await Task.sleep(for: .milliseconds(50))
    latch.open()
    #expect(try await first.value == (isRefresh ? 1 : 2))
    #expect(try await second.value == cover)
  }

  @Test func whatIsFoundIsDecodedOnce() async throws {
    let decoded = Counter()
    let numbers = cache.values(of: Int.self, coder: DecimalCoder(decoded: decoded))
    let events = cache.events
    try await numbers.store(42, for: "a")
    for _ in 0..<3 { #expect(try await numbers.value(for: "a") { 0 } == 42) }
    #expect(decoded.count == 3)
    cache.removeAllFromMemory()
    #expect(try await numbers.value(for: "a") { 0 } == 42)
    #expect(decoded.count == 4)
    try await cache.store(Data("none".utf8), for: "b")
    #expect(try await numbers.value(for: "b") { 7 } == 7)
    // The count includes the blob that does not decode and the blob that was produced instead.
    #expect(decoded.count == 6)
    try await cache.close()
    var damages = 0
    for await event in events {
      if case .damaged = event.kind { damages += 1 }
    }
    #expect(damages == 1)
  }

  @Test func aCoderOfOnesOwn() async throws {
    let numbers = cache.values(of: Int.self, coder: DecimalCoder(decoded: Counter()))
    try await numbers.store(42, for: "a")
    #expect(try await cache.load("a")?.payload == Data("42".utf8))
    #expect(try await numbers.value(for: "a") == 42)
  }

  @Test func aValueThatDoesNotEncodeIsNotStored() async throws {
    let numbers = cache.values(of: Double.self)
    await expect(.unencodableValue) { try await numbers.store(.infinity, for: "a") }
    #expect(try await cache.load("a") == nil)
  }
}

/// Stores numbers as decimal digits, and counts how often it decodes.
private struct DecimalCoder: ValueCoder {
  let decoded: Counter

  func encode(_ value: Int) -> Data { Data("\(value)".utf8) }

  func decode(_ payload: Data) throws -> Int {
    decoded.increment()
    guard let value = Int(String(decoding: payload, as: UTF8.self)) else { throw CocoaError(.coderInvalidValue) }
    return value
  }
}
