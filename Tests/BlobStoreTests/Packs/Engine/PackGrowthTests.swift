import BlobRecord
import Foundation
import Locks
import Posix
import TestSupport
import Testing

@testable import BlobStore

/// The index of the packs grows while records are loaded and changed.
@Suite struct PackGrowthTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// Returns a store whose index has four buckets at first, so that it grows with the fifteenth record.
  private func store(
    _ cache: Cache? = nil, files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try (cache ?? self.cache).store(files: files) {
      $0.packing = .upTo(8192)
      $0.leastPackIndexEntryCount = 1
      change(&$0)
    }
  }

  private func key(_ number: Int) -> BlobKey { BlobKey("key \(number)") }

  private func records(_ store: BlobStore) throws -> PackRecords {
    let open = try #require(try store.core.root.opened())
    return try #require(try Records(store.core).packs(of: open))
  }

  /// The expected content of a cache: the seed of each key's payload, by the key's number.
  private typealias Content = [Int: UInt64]

  private func expect(_ content: Content, of count: Int, in store: BlobStore, _ when: String) throws {
    for number in 0..<count {
      let expected = content[number].map { payload(40, $0) }
      #expect(try store.load(key(number))?.payload == expected, "\(number), \(when)")
    }
  }

  @Test func manyRecordsAreStored() throws {
    let (store, other) = try (store(), store())
    for number in 0..<20_000 {
      let payload = Data("\(number)".utf8)
      try (number % 2 == 0 ? store : other).store(payload, for: key(number))
      if number % 3 == 0, number > 0 { #expect(try other.remove(key(number / 3)) == .done) }
    }
    #expect(try cache.files() == Cache.filesOfPacks)
    let index = try records(store).packs.index
    #expect(try index.bucketCount > 3000 && index.number == records(other).packs.index.number)
    #expect(index.entryCount == 20_000 - 6666)
    let third = try self.store()
    for number in 0..<20_000 {
      let isGone = number > 0 && number <= 6666
      #expect(try third.load(key(number))?.payload == (isGone ? nil : Data("\(number)".utf8)), "\(number)")
    }
  }

  // MARK: Steps

  /// Fills a new cache until the next record requires growth, and stores that record.
  ///
  /// - Parameter action: A closure that is called before each step of that store, with the step's number and call.
  private func grow(
    in cache: Cache, before action: @escaping @Sendable (Int, SystemCall) throws -> Void
  ) throws -> (store: BlobStore, content: Content) {
    let steps = Lock<Int?>(nil)
    // Recording the paths of all calls would take too long.
    let files = Files.still { call, _ in
      let step = steps.withLock { steps in
        steps = steps.map { $0 + 1 }
        return steps
      }
      guard let step else { return nil }
      do { try action(step, call) } catch { Issue.record(error, "step \(step)") }
      return nil
    }
    let store = try store(cache, files: files)
    for number in 0..<14 { try store.store(payload(40, UInt64(number)), for: key(number), ttl: .seconds(1000)) }
    steps.withLock { $0 = 0 }
    try store.store(payload(40, 14), for: key(14), ttl: .seconds(1000))
    steps.withLock { $0 = nil }
    var content: Content = [:]
    for number in 0...14 { content[number] = UInt64(number) }
    return (store, content)
  }

  private final class Steps: Sendable {
    private let calls = Lock<[SystemCall]>([])
    func add(_ call: SystemCall) { calls.withLock { $0.append(call) } }

    /// Returns the numbers of distinct steps, with only a few of the many that take a stripe.
    func numbers(_ isWanted: (SystemCall) -> Bool) -> [Int] {
      var taken = 0
      return calls.withLock { $0 }.enumerated().compactMap { index, call in
        if call == .takeStripe { taken += 1 }
        let isOfMany = call.isStep && call != .growIndex || call == .status
        let isAtBegin = taken == 1 || taken == 2
        return (!isOfMany || isAtBegin || taken > 4110) && isWanted(call) ? index + 1 : nil
      }
    }
  }

  private func steps(where isWanted: (SystemCall) -> Bool) throws -> [Int] {
    let steps = Steps()
    let (store, content) = try grow(in: cache) { _, call in steps.add(call) }
    try expect(content, of: 15, in: store, "undisturbed")
    #expect(try records(store).packs.index.bucketCount == 6)
    return steps.numbers(isWanted)
  }

  /// Another process stores, replaces, removes, locks, and touches records between any two steps of a growth.
  @Test func changesGoOnBetweenAllSteps() throws {
    // While the growing store holds its stripe, other processes cannot complete a growth.
    let steps = try steps { ![.status, .announce, .exchangeEntry, .write, .markDead, .freeStripe].contains($0) }
    #expect(steps.count > 20)
    for chosen in steps {
      let cache = try Cache()
      let other = try store(cache)
      let (store, before) = try grow(in: cache) { step, _ in
        guard step == chosen else { return }
        try other.store(payload(40, 102), for: key(2), ttl: .seconds(1000))
        try other.remove(key(3))
        try other.remove(key(4))
        try other.store(payload(40, 104), for: key(4), ttl: .seconds(1000))
        try other.store(payload(40, 120), for: key(20), ttl: .seconds(1000))
        try other.lock(key(5))
        try other.store(payload(40, 106), for: key(6))
        cache.clock.advance(by: 500)
        try other.touch(key(6))
        try other.remove(key(20))
        try other.store(payload(40, 121), for: key(21), ttl: .seconds(1000))
      }
      var content = before
      content[2] = 102
      content[3] = nil
      content[4] = 104
      content[6] = 106
      content[21] = 121
      for (name, store) in try [("it", store), ("the other", other), ("a third", self.store(cache))] {
        try expect(content, of: 22, in: store, "by \(name), step \(chosen)")
        #expect(try store.header(for: key(5))?.refCount == 1)
        #expect(try store.header(for: key(6))?.lastUpdate == cache.clock.now)
      }
      let records = try records(store)
      #expect(records.packs.index.bucketCount > 4 && records.packs.index.entryCount == content.count)
      #expect(records.control.growingIndex == nil)
      #expect(try !cache.exists(".packs/index.next"))
      // The packs agree with the index.
      try FileManager.default.removeItem(atPath: cache.path(".packs/index"))
      try FileManager.default.removeItem(atPath: cache.path(".blobcache"))
      let anew = try self.store(cache)
      try anew.store(payload(1), for: "another")
      try expect(content, of: 22, in: anew, "made anew, step \(chosen)")
    }
  }

  /// A process is killed before a step: a copy of the directory has no locks of living processes.
  @Test func aBuilderMayDieBeforeEachStep() throws {
    let steps = try steps { _ in true }
    for chosen in steps {
      let (cache, copy) = try (Cache(), Cache())
      _ = try grow(in: cache) { step, _ in
        guard step == chosen else { return }
        try FileManager.default.copyItem(atPath: cache.root.string, toPath: copy.root.string)
      }
      let store = try store(copy)
      var content: Content = [:]
      for number in 0..<14 { content[number] = UInt64(number) }
      try expect(content, of: 14, in: store, "step \(chosen)")
      #expect(try store.load(key(14)).map { $0.payload == payload(40, 14) } != false)
      for number in stride(from: 0, to: 14, by: 3) {
        try store.remove(key(number))
        content[number] = nil
      }
      for number in 14..<30 {
        try store.store(payload(40, UInt64(number + 100)), for: key(number), ttl: .seconds(1000))
        content[number] = UInt64(number + 100)
      }
      try expect(content, of: 30, in: store, "step \(chosen), later")
      try expect(content, of: 30, in: self.store(copy), "step \(chosen), by another")
      let records = try records(store)
      #expect(records.packs.index.bucketCount > 4 && records.control.growingIndex == nil, "step \(chosen)")
      #expect(try !copy.exists(".packs/index.next"), "step \(chosen)")
      // Collections remove a draft that never received its name.
      let named = try copy.files().filter { !$0.contains(".tmp-") }
      #expect(named == Cache.filesOfPacks, "step \(chosen)")
    }
  }

  /// A process died after removing an entry from the new index, and before removing it from the current one.
  @Test(arguments: [false, true]) func aChangeThatWasCutOffInBetweenEndsTheGrowth(isWhole: Bool) throws {
    let store = try store()
    try store.store(payload(40), for: "key")
    let records = try records(store)
    let (old, control) = (records.packs.index, records.control)
    let path = try store.core.path(for: "key")
    let place = try #require(try records.find(path, by: RecordJudge())?.packAddress)
    let address = PackAddress(rawValue: place)
    let growth = try PackIndexGrowth.begin(
      of: old, in: records.packs.files.directory, names: store.core.temporaryNames)
    #expect(control.beginGrowth(to: growth.new.number))
    #expect(growth.copy(path.digest, at: address) == .copied)
    control.setIntent(.old, of: ControlLayout.stripe(of: path.digest), to: StripeIntent(.record, at: place))
    #expect(growth.new.remove(path.digest, at: address) != nil)
    if isWhole { #expect(control.endGrowth(to: growth.new.number)) }
    #expect(try store.load("key") != nil)
    #expect(try store.touch("key") == (isWhole ? .notFound : .done))
    #expect(control.growingIndex == nil)
    #expect(control.packIndexNumber == (isWhole ? growth.new : old).number)
    #expect(try (store.load("key") == nil) == isWhole)
    let pack = try #require(try records.packs.files.pack(0))
    #expect(pack.deadBits(ofChunk: address.chunk).isDead(address) == isWhole)
    // The file with the new index's name is used or removed.
    for number in 0..<50 { try store.store(payload(40, UInt64(number)), for: key(number)) }
    try expect(Content(uniqueKeysWithValues: (0..<50).map { ($0, UInt64($0)) }), of: 50, in: store, "later")
    #expect(try cache.files() == Cache.filesOfPacks)
  }

  /// A use that a load records during the growth is not lost with the old index.
  @Test func aUseIsNotedInBothIndexes() throws {
    let store = try store()
    try store.store(payload(40), for: "key")
    let records = try records(store)
    let path = try store.core.path(for: "key")
    let address = PackAddress(rawValue: try #require(try records.find(path, by: RecordJudge())?.packAddress))
    let growth = try PackIndexGrowth.begin(
      of: records.packs.index, in: records.packs.files.directory, names: store.core.temporaryNames)
    #expect(records.control.beginGrowth(to: growth.new.number))
    #expect(growth.copy(path.digest, at: address) == .copied)
    cache.clock.advance(by: 100)
    #expect(try store.load("key") != nil)
    #expect(records.control.endGrowth(to: growth.new.number))
    records.control.settleGrowth()
    #expect(try store.header(for: "key")?.lastUpdate == cache.clock.now)
    #expect(try self.records(store).packs.index.number == growth.new.number)
  }

  /// A process that has seen a complete index is delayed until another index is current.
  @Test func anIndexIsPutInForceOnce() throws {
    let store = try store()
    try store.store(payload(40), for: "key")
    let control = try records(store).control
    let first = control.packIndexNumber
    #expect(control.beginGrowth(to: 5) && !control.beginGrowth(to: 6) && !control.endGrowth(to: 6))
    #expect(control.growingIndex == GrowingIndex(number: 5, isWhole: false))
    control.settleGrowth()
    #expect(control.growingIndex == nil && control.packIndexNumber == first && !control.endGrowth(to: 5))
    #expect(control.beginGrowth(to: 7) && control.endGrowth(to: 7) && !control.endGrowth(to: 7))
    #expect(control.growingIndex == GrowingIndex(number: 7, isWhole: true) && control.packIndexNumber == first)
    control.settleGrowth()
    #expect(control.growingIndex == nil && control.packIndexNumber == 7)
    control.settleGrowth()
    #expect(control.packIndexNumber == 7)
  }

  /// A stopped process holds a stripe, so the index cannot grow, and records are stored as files once it is full.
  @Test func aGrowthThatCannotEndIsGivenUp() throws {
    let store = try store { $0.access.lockTimeout = .milliseconds(1) }
    for number in 0..<14 { try store.store(payload(40, UInt64(number)), for: key(number)) }
    let used = Set((0..<150).map { ControlLayout.stripe(of: NameDigest.digest(ofFileName: "key%20\($0)")) })
    let stopped = try HeldLocks(in: cache)
    let stripe = try #require((0..<ControlLayout.stripeCount).first { !used.contains($0) })
    #expect(try stopped.take(Int64(stripe)..<Int64(stripe + 1)))
    for number in 14..<30 { try store.store(payload(40, UInt64(number)), for: key(number)) }
    var content: Content = [:]
    for number in 0..<30 { content[number] = UInt64(number) }
    try expect(content, of: 30, in: store, "with a stripe held")
    #expect(try records(store).packs.index.bucketCount == 4 && records(store).control.growingIndex == nil)
    #expect(try cache.files().count > 2 && !cache.exists(".packs/index.next"))
    try stopped.giveBack(Int64(stripe)..<Int64(stripe + 1))
    for number in 30..<150 {
      try store.store(payload(40, UInt64(number)), for: key(number))
      content[number] = UInt64(number)
    }
    #expect(try records(store).packs.index.bucketCount >= 6)
    try expect(content, of: 150, in: store, "in the end")
  }
}
