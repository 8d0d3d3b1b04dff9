import Dispatch
import Foundation
import Locks
import Synchronization
import TestSupport
import Testing

@testable import BlobStore

@Suite struct PackIndexTests {
  let bench: PackBench

  init() throws { bench = try PackBench() }

  /// Returns an entry for a name, with an address that distinguishes it from others.
  static func entry(_ digest: UInt64, in index: PackIndex, life: Int = 0) -> IndexEntry {
    let tag = IndexHash(digest: digest, seed: index.seed).tag
    let address = PackAddress(pack: life % 1024, chunk: Int(digest & 1023), offset: Int(digest >> 10 & 0xFFFF) * 8)
    return IndexEntry(tag: tag, byteCount: 64 + life / 1024 * 16, address: address)
  }

  /// Returns all entries that a search finds, including other names with the same tag.
  static func found(_ digest: UInt64, in index: PackIndex) -> [IndexEntry] {
    var probe = index.probe(digest)
    var found: [IndexEntry] = []
    while let (slot, entry) = probe.next(in: index) {
      #expect(index.isUnchanged(entry, at: slot))
      found.append(entry)
    }
    return found
  }

  static func slot(of entry: IndexEntry, _ digest: UInt64, in index: PackIndex) -> IndexSlot? {
    var probe = index.probe(digest)
    while let (slot, found) = probe.next(in: index) { if found == entry { return slot } }
    return nil
  }

  @Test func aNewIndexIsEmpty() throws {
    guard case .absent = try PackIndex.open(in: bench.packs) else {
      Issue.record("there is one")
      return
    }
    let index = try bench.index(buckets: 3)
    #expect(index.bucketCount == 3 && index.number != 0 && index.boot == [1, 2] && index.entryCount == 0)
    #expect(!index.isDueForGrowth && Self.found(5, in: index) == [])
    let content = try bytes(ofFile: bench.path("index"))
    #expect(content.count == 4096 + 3 * 64 && content.starts(with: Array("BLOBINDX".utf8) + [1, 0, 0, 0, 0, 0, 0, 0]))
    #expect(content[48...].allSatisfy { $0 == 0 } == false && content[56...].allSatisfy { $0 == 0 })
    #expect(try bench.cache.state(".packs/index")?.permissions == 0o600)
    #expect(try index.isCurrent(in: bench.packs))
    #expect(try !PackIndex.make(bucketCount: 9, boot: .zero, in: bench.packs, names: bench.names))
    #expect(try bench.opened().number == index.number && bench.fileNames() == ["index"])
    try FileManager.default.removeItem(atPath: bench.path("index"))
    #expect(try !index.isCurrent(in: bench.packs))
  }

  @Test func ofMakersAtOnceOneWins() throws {
    let made = CallCount()
    DispatchQueue.concurrentPerform(iterations: 4) { _ in
      #expect(throws: Never.self) {
        if try PackIndex.make(bucketCount: 9, boot: .zero, in: bench.packs, names: bench.names) { made.add(1) }
      }
    }
    #expect(made.value == 1)
    #expect(try bench.fileNames() == ["index"])
  }

  /// Compares the index to a dictionary. The few buckets make searches continue in the next buckets and wrap around.
  @Test(arguments: [1, 2, 7, 64, 65, 200]) func itFindsWhatADictionaryHas(buckets: Int) throws {
    var random = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "itFindsWhatADictionaryHas(\(buckets))"))
    let (index, other) = try (bench.index(buckets: buckets), bench.index())
    var model: [UInt64: (entry: IndexEntry, time: UInt32)] = [:]
    for step in 0..<3000 {
      let digest = UInt64.random(in: 0..<UInt64(buckets * 8), using: &random) &* 0x9E37_79B9_7F4A_7C15
      let entry = Self.entry(digest, in: index, life: step)
      let time = UInt32.random(in: 0 ... .max, using: &random)
      if let (old, _) = model[digest] {
        let slot = try #require(Self.slot(of: old, digest, in: index))
        #expect(!index.compareExchange(at: slot, .empty, entry))
        let isRemoved = Bool.random(using: &random)
        #expect(index.compareExchange(at: slot, old, isRemoved ? .empty : entry))
        #expect(!index.isUnchanged(old, at: slot))
        if !isRemoved { index.setTime(time, at: slot) }
        model[digest] = isRemoved ? nil : (entry, time)
      } else if let slot = index.insert(entry, digest, time: time) {
        #expect(index.entry(at: slot) == entry && index.time(at: slot) == time)
        model[digest] = (entry, time)
      } else {
        #expect(model.count >= 5 * min(buckets, 64))
      }
    }
    #expect(index.entryCount == model.count && other.entryCount == model.count)
    for (digest, (entry, time)) in model {
      #expect(Self.found(digest, in: other).count { $0 == entry } == 1)
      let slot = try #require(Self.slot(of: entry, digest, in: other))
      #expect(other.time(at: slot) == time)
    }
    let all = (0..<buckets).flatMap { bucket in (0..<5).map { other.entry(at: IndexSlot(bucket: bucket, $0)) } }
    #expect(Set(all.filter { !$0.isEmpty }) == Set(model.values.map(\.entry)))
  }

  @Test func aFullIndexTakesNothing() throws {
    let index = try bench.index(buckets: 2)
    for digest: UInt64 in 0..<10 {
      #expect(!index.isDueForGrowth)
      #expect(index.insert(Self.entry(digest, in: index), digest, time: 0) != nil)
    }
    #expect(index.insert(Self.entry(10, in: index), 10, time: 0) == nil)
    #expect(index.entryCount == 10 && index.isDueForGrowth)
    #expect(Self.found(10, in: index).allSatisfy { $0 != Self.entry(10, in: index) })
  }

  /// A search ends after 64 buckets, as an insertion does.
  @Test func aSearchLooksAtNoMoreBucketsThanAnInsertion() throws {
    let index = try bench.index(buckets: 1000)
    // The names share their first bucket.
    var digests: [UInt64] = []
    var digest: UInt64 = 0
    while digests.count < 330 {
      digest += 1
      if index.firstBucket(of: IndexHash(digest: digest, seed: index.seed)) == 990 { digests.append(digest) }
    }
    let inserted = digests.filter { index.insert(Self.entry($0, in: index), $0, time: 0) != nil }
    #expect(inserted == Array(digests.prefix(320)))
    for digest in digests {
      #expect(Self.found(digest, in: index).contains(Self.entry(digest, in: index)) == inserted.contains(digest))
    }
  }

  @Test func growthIsDueAtThreeQuarters() throws {
    for buckets in [4, 100] {
      let index = try bench.index(buckets: buckets)
      var digest: UInt64 = 0
      while !index.isDueForGrowth {
        #expect(index.entryCount * 4 < buckets * 5 * 3)
        digest += 1
        try #require(index.insert(Self.entry(digest, in: index), digest, time: 0) != nil)
      }
      #expect(index.entryCount * 4 == buckets * 5 * 3 && index.grownBucketCount == buckets * 3 / 2)
      try FileManager.default.removeItem(atPath: bench.path("index"))
    }
    for count in [0, 1, 14, 15, 1000, 65_536] {
      #expect(PackIndex.bucketCount(forEntries: count) * 15 > count * 4)
      #expect(PackIndex.bucketCount(forEntries: count) * 15 <= count * 4 + 60)
    }
  }

  @Test(arguments: [Int64.min, -1, .max]) func anyCountOfEntriesMayStandThere(count: Int64) throws {
    _ = try bench.index()
    try bench.change("index") { bytes in
      for byte in 0..<8 { bytes[64 + byte] = UInt8(truncatingIfNeeded: count >> (8 * Int64(byte))) }
    }
    let index = try bench.opened()
    #expect(index.entryCount == max(0, Int(count)) && index.isDueForGrowth == (count > 0))
    #expect(index.insert(Self.entry(1, in: index), 1, time: 0) != nil)
  }

  /// Repeating a change because another index was current has no effect the second time.
  @Test func aNameLeadsToOneRecord() throws {
    let index = try bench.index(buckets: 1)
    let places = (0..<7).map { PackAddress(pack: 1, chunk: 2, offset: 512 * $0) }
    func publish(_ digest: UInt64, _ place: Int, over old: Int? = nil) -> String {
      switch index.publish(80, at: places[place], digest, over: old.map { places[$0] }, time: UInt32(place)) {
      case .isThere: "is there"
      case .isFull: "is full"
      case .published(over: nil): "new"
      case .published(let replaced?): "over \(replaced.address.offset / 512)"
      }
    }
    #expect(publish(9, 0) == "new" && publish(9, 0) == "is there")
    #expect(publish(9, 1, over: 0) == "over 0" && publish(9, 1, over: 0) == "is there")
    #expect(index.find(9, at: places[0]) == nil && index.entryCount == 1)
    // The replaced entry is missing, because a larger index does not contain it yet.
    #expect(publish(10, 3, over: 2) == "new")
    index.setTime(77, of: 10, at: places[3])
    index.setTime(78, of: 10, at: places[4])
    #expect(try index.time(at: #require(index.find(10, at: places[3])).slot) == 77)
    for digest in 11..<14 { #expect(publish(UInt64(digest), 4) == "new") }
    #expect(publish(20, 5) == "is full" && publish(9, 6, over: 1) == "over 1")
    #expect(index.remove(9, at: places[6])?.byteCount == 80 && index.remove(9, at: places[6]) == nil)
    #expect(index.entryCount == 4)
  }

  /// A delayed load may record its use last. A record that moves keeps the recorded time.
  @Test func aTimeOfUseOnlyGoesForward() throws {
    let index = try bench.index()
    let (first, second) = (PackAddress(rawValue: 0), PackAddress(rawValue: 64))
    _ = index.publish(80, at: first, 9, over: nil, time: 10)
    let (slot, entry) = try #require(index.find(9, at: first))
    #expect(index.raiseTime(to: 12, at: slot, of: entry) && index.time(at: slot) == 12)
    #expect(!index.raiseTime(to: 11, at: slot, of: entry) && index.time(at: slot) == 12)
    #expect(!index.exchangeTime(10, 11, at: slot) && index.time(at: slot) == 12)
    _ = index.publish(80, at: second, 9, over: first, time: 11, keepsTime: true)
    #expect(!index.raiseTime(to: 13, at: slot, of: entry) && index.time(at: slot) == 12)
    _ = index.publish(80, at: first, 9, over: second, time: 11)
    #expect(index.time(at: slot) == 11)
  }

  /// With random bytes as buckets, searches and insertions end, and may return any address.
  @Test func anyBucketsCanBeSearched() throws {
    var random = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "anyBucketsCanBeSearched"))
    _ = try bench.index(buckets: 300)
    for hasEmpty in [true, false] {
      try bench.change("index") { bytes in
        bytes.replaceSubrange(48..<bytes.count, with: random.bytes(bytes.count - 48))
        for slot in 0..<300 * 5 where hasEmpty && slot % 3 == 0 {
          let offset = 4096 + slot / 5 * 64 + slot % 5 * 8
          bytes.replaceSubrange(offset..<offset + 8, with: [UInt8](repeating: 0, count: 8))
        }
      }
      let index = try bench.opened()
      for _ in 0..<2000 {
        let digest = random.next()
        var probe = index.probe(digest)
        var count = 0
        while let (slot, entry) = probe.next(in: index) {
          count += 1
          #expect(
            entry.readByteCount <= 32_752 && PackLayout.fileOffset(ofChunk: 1024) + (1 << 20) > entry.address.fileOffset
          )
          _ = (index.time(at: slot), index.isUnchanged(entry, at: slot))
        }
        #expect(count <= 320)
        if let slot = index.insert(Self.entry(digest, in: index), digest, time: 1) {
          #expect(index.entry(at: slot) == Self.entry(digest, in: index))
        }
      }
      _ = (index.isDueForGrowth, index.publish(80, at: PackAddress(rawValue: 0), 7, over: nil, time: 0))
      _ = index.remove(7, at: PackAddress(rawValue: 0))
    }
  }

  // MARK: Concurrent use

  /// Several stripes insert into one bucket, each through a separate mapping, as processes have.
  @Test func insertionsIntoOneBucketLoseNothing() throws {
    let indexes = try (0..<4).map { _ in try bench.index(buckets: 1) }
    for round in 0..<300 {
      let taken = Lock<[(IndexSlot, IndexEntry, UInt32)]>([])
      DispatchQueue.concurrentPerform(iterations: 4) { thread in
        for number in 0..<2 {
          let digest = UInt64(round << 8 | thread << 4 | number)
          let entry = Self.entry(digest, in: indexes[thread])
          let time = UInt32(digest)
          if let slot = indexes[thread].insert(entry, digest, time: time) {
            taken.withLock { $0.append((slot, entry, time)) }
          }
        }
      }
      let all = taken.withLock { $0 }
      #expect(all.count == 5 && Set(all.map(\.0)).count == 5 && indexes[0].entryCount == 5)
      for (slot, entry, _) in all {
        #expect(indexes[1].entry(at: slot) == entry)
        #expect(indexes[2].compareExchange(at: slot, entry, .empty))
      }
      #expect(indexes[3].entryCount == 0)
    }
  }

  /// Threads change separate names while others search for them: entries are neither lost nor found twice.
  @Test func changesAndSearchesAtOnce() throws {
    let indexes = try (0..<4).map { _ in try bench.index(buckets: 8) }
    let stable = (0..<8).map { UInt64($0) << 32 }
    for digest in stable { try #require(indexes[0].insert(Self.entry(digest, in: indexes[0]), digest, time: 7) != nil) }
    let isOver = Atomic(false)
    let losses = CallCount()
    DispatchQueue.concurrentPerform(iterations: 4) { thread in
      let index = indexes[thread]
      if thread == 0 {
        while !isOver.load(ordering: .relaxed) {
          for digest in stable where Self.slot(of: Self.entry(digest, in: index), digest, in: index) == nil {
            losses.add(1)
          }
        }
        return
      }
      for life in 0..<2000 {
        let digest = UInt64(thread) << 48 | UInt64(life % 5)
        let entry = Self.entry(digest, in: index, life: life)
        guard let slot = index.insert(entry, digest, time: UInt32(life)) else {
          losses.add(1)
          continue
        }
        if Self.slot(of: entry, digest, in: index) != slot { losses.add(1) }
        if !index.compareExchange(at: slot, entry, .empty) { losses.add(1) }
      }
      if thread == 1 { isOver.store(true, ordering: .relaxed) }
    }
    #expect(losses.value == 0 && indexes[0].entryCount == 8)
  }
}
