import BlobRecord
import Dispatch
import Foundation
import Locks
import Posix
import Synchronization
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Spec/Uses.md: estimates of a sketch, in a file that several stores share.
@Suite struct UseSketchTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func store() throws -> BlobStore { try cache.store { $0.limits.size = 1 << 30 } }

  /// Stores a first record, and returns the sketch that the store has mapped.
  private func sketch(of store: BlobStore) throws -> UseSketch {
    try store.store(payload(10), for: "first")
    let open = try #require(try store.core.root.opened())
    let control = try #require(open.openedControlFile)
    return try #require(store.core.uses.withSketch(of: control, in: open) { $0 })
  }

  /// Returns the sketch of a new file with this number of blocks, in its own mapping.
  private func sketch(blocks: Int, words: @escaping @Sendable () -> [UInt64]? = { nil }) throws -> UseSketch {
    let store = try store()
    try store.store(payload(10), for: "first")
    let open = try #require(try store.core.root.opened())
    let layout = UsesLayout(blockCount: blocks)
    let format = UsesFile.format(layout) { words() ?? UsesFile.emptyWords(of: layout) }
    try SharedFile.replace(format, in: open, names: store.core.temporaryNames)
    let file = try SharedFile.open(format, in: open.directory, open.ownership, logger: store.configuration.logger)
    return UseSketch(try #require(file), layout, number: 1)
  }

  @Test func usesAreCountedUpToFifteen() throws {
    let sketch = try sketch(of: store())
    #expect(sketch.uses(of: 7) == UseSketch.Uses())
    for count in 1...20 {
      sketch.count(7, at: cache.clock.now)
      #expect(sketch.uses(of: 7).count == min(count, 15))
    }
    #expect(sketch.uses(of: 8) == UseSketch.Uses())
  }

  /// C30: touching loads are uses, also if they are misses.
  @Test func loadsAreUses() throws {
    let store = try store()
    let sketch = try sketch(of: store)
    func uses(of key: BlobKey) throws -> Int { sketch.uses(of: try store.core.path(for: key).digest).count }
    _ = try store.load("first", touching: false)
    _ = try store.contains("first")
    _ = try store.header(for: "first")
    #expect(try uses(of: "first") == 0)
    _ = try store.load("first")
    _ = try store.load("missing")
    #expect(try uses(of: "first") == 1)
    #expect(try uses(of: "missing") == 1)
  }

  /// C32: a store with a limit creates the file and enlarges it as the number of records grows.
  @Test func theFileGrowsWithTheRecords() throws {
    let store = try store()
    try store.store(payload(10), for: "key")
    for _ in 0..<9 { _ = try store.load("key") }
    let file = cache.path(".blobcache-uses")
    let size = try bytes(ofFile: file).count
    for index in 0..<300 { try store.store(payload(10), for: BlobKey("other \(index)")) }
    #expect(try bytes(ofFile: file).count == 4 * (size - 4096) + 4096)
    let sketch = try sketch(of: store)
    #expect(sketch.uses(of: try store.core.path(for: "key").digest).count == 9)
  }

  /// C32.
  @Test func withoutALimitThereIsNoFile() throws {
    try cache.store().store(payload(10), for: "key")
    try cache.store {
      $0.limits.size = 1 << 30
      $0.limits.eviction = .oldest
    }.store(payload(10), for: "key")
    #expect(try cache.exists(".blobcache-uses") == false)
  }

  /// C32: a foreign file with the name of the file of uses is not replaced.
  @Test func aLinkInItsPlaceStays() throws {
    try cache.store().store(payload(10), for: "first")
    let link = cache.path(".blobcache-uses")
    try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "elsewhere")
    let store = try store()
    try store.store(payload(10), for: "key")
    _ = try store.load("key")
    #expect(try FileManager.default.destinationOfSymbolicLink(atPath: link) == "elsewhere")
    #expect(try store.usage().records == 2)
  }

  /// C32: failures with the file only affect the order of evictions, never a store.
  @Test func eachCallForTheFileMayFail() throws {
    // A store without a limit creates no file of uses.
    func prepared(_ trace: CallTrace) throws -> (cache: Cache, store: BlobStore) {
      let cache = try Cache()
      try cache.store().store(payload(10), for: "key")
      let store = try cache.store(files: trace.files) { $0.limits.size = 1 << 30 }
      try store.remove("key")
      _ = trace.take()
      return (cache, store)
    }
    let whole = CallTrace()
    try prepared(whole).store.store(payload(10), for: "key")
    let calls = whole.take()
    let first = try #require(calls.firstIndex { $0.path.hasSuffix(".blobcache-uses") })
    #expect(calls.count - first > 4)
    for failing in 1...calls.count - first {
      let trace = CallTrace()
      let (cache, store) = try prepared(trace)
      let callsForTheFile = Lock(0)
      trace.onCall { _, path in
        let number = callsForTheFile.withLock { count in
          if count > 0 || path.lastComponent == ".blobcache-uses" { count += 1 }
          return count
        }
        return number == failing ? .fail(.noSpace) : nil
      }
      try store.store(payload(10), for: "key")
      trace.onCall(nil)
      #expect(try store.load("key")?.payload == payload(10), "call \(failing)")
      #expect(try cache.store().usage().temporaryFiles == 0, "call \(failing)")
    }
  }

  /// Each store maps the file separately, like a process.
  @Test func storesShareTheSketch() throws {
    let (one, other) = (try sketch(of: store()), try sketch(of: store()))
    for _ in 0..<3 { one.count(7, at: cache.clock.now) }
    other.count(7, at: cache.clock.now)
    #expect(one.uses(of: 7).count == 4 && other.uses(of: 7).count == 4)
  }

  /// Counts are halved, and the last use is forgotten, as other keys are used.
  @Test func whatIsNotUsedIsForgotten() throws {
    let sketch = try sketch(blocks: 1024)
    let key: UInt64 = 0xA110_57AB_1E5E_ED01
    for _ in 0..<15 { sketch.count(key, at: cache.clock.now) }
    var others = SeededGenerator(seed: 1)
    var counts: [Int] = []
    for _ in 0..<8 {
      for _ in 0..<8192 {
        cache.clock.advance(by: 1)
        sketch.count(others.next(), at: cache.clock.now)
      }
      counts.append(sketch.uses(of: key).count)
    }
    #expect(counts.last! <= 4, "\(counts)")
    let last = sketch.uses(of: key).last
    #expect(last.map { $0 > UnixTime(seconds: cache.now - 65_536) } ?? true)
  }

  /// The time of a use is rounded down to the start of its epoch.
  @Test func theLastUseIsToldByItsEpoch() throws {
    let sketch = try sketch(blocks: 64)
    var others = SeededGenerator(seed: 2)
    func useOthers() {
      for _ in 0..<512 {
        cache.clock.advance(by: 1)
        sketch.count(others.next(), at: cache.clock.now)
      }
    }
    useOthers()
    let start = cache.now
    sketch.count(7, at: cache.clock.now)
    useOthers()
    let last = try #require(sketch.uses(of: 7).last)
    #expect(last <= UnixTime(seconds: start) && last > UnixTime(seconds: start - 512))
  }

  /// A larger file starts with the same estimates for every key.
  @Test func aLargerFileSaysTheSame() throws {
    let small = try sketch(blocks: 64)
    var keys = SeededGenerator(seed: 3)
    let digests = (0..<100).map { _ in keys.next() }
    for (index, digest) in digests.enumerated() {
      for _ in 0..<index % 7 { small.count(digest, at: cache.clock.now) }
    }
    let words = small.words(in: UsesLayout(blockCount: 256))
    let large = try sketch(blocks: 256) { words }
    for digest in digests { #expect(large.uses(of: digest) == small.uses(of: digest)) }
  }

  /// Another thread must not open the file again, because the system calls of equal runs must be equal.
  @Test func threadsThatAskTogetherOpenTheFileOnce() throws {
    let sketch = try sketch(of: store())
    let uses = OpenUses()
    let opened = Atomic(0)
    DispatchQueue.concurrentPerform(iterations: 8) { _ in
      let number = uses.withSketch(sketch.number) {
        opened.add(1, ordering: .relaxed)
        // The other threads arrive in the meantime.
        usleep(20_000)
        return sketch
      } _: {
        $0.number
      }
      #expect(number == sketch.number)
    }
    #expect(opened.load(ordering: .relaxed) == 1)
  }

  /// A thread that searched before another one opened the file uses the other's result.
  @Test func aThreadThatWaitsForAnotherFindsWhatThatHasOpened() throws {
    let sketch = try sketch(of: store())
    let uses = OpenUses()
    #expect(uses.sketch(sketch.number) { sketch } === sketch)
    let found = uses.sketch(sketch.number) {
      Issue.record("opened again")
      return nil
    }
    #expect(found === sketch)
  }

  /// Counts of keys in different blocks do not affect each other, except for aging.
  @Test func threadsCountAtOnce() throws {
    let sketches = try (0..<4).map { _ in try sketch(of: store()) }
    let now = cache.clock.now
    DispatchQueue.concurrentPerform(iterations: 4) { index in
      for _ in 0..<1000 { sketches[index].count(UInt64(index) << 40 | 1, at: now) }
    }
    for index in 0..<4 { #expect(sketches[0].uses(of: UInt64(index) << 40 | 1).count >= 7) }
  }
}
