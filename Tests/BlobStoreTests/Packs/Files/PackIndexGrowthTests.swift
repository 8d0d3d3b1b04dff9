import Dispatch
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

@Suite struct PackIndexGrowthTests {
  let bench: PackBench

  init() throws { bench = try PackBench() }

  private typealias Record = (digest: UInt64, address: PackAddress, time: UInt32)

  /// Inserts records with distinct names, digests, and places.
  private func fill(_ index: PackIndex, _ count: Int) throws -> [Record] {
    try (0..<count).map { number in
      let record = (
        digest: UInt64(number) &* 0x9E37_79B9_7F4A_7C15, address: Self.address(number), time: UInt32(number)
      )
      try insert(record, into: index)
      return record
    }
  }

  private func insert(_ record: Record, into index: PackIndex) throws {
    let entry = IndexEntry(tag: index.tag(of: record.digest), byteCount: 80, address: record.address)
    try #require(index.insert(entry, record.digest, time: record.time) != nil)
  }

  private static func address(_ number: Int) -> PackAddress {
    PackAddress(pack: 1, chunk: number / 1000, offset: number % 1000 * 512)
  }

  private func growth(of index: PackIndex, buckets: Int? = nil) throws -> PackIndexGrowth {
    try PackIndexGrowth.begin(of: index, bucketCount: buckets, in: bench.packs, names: bench.names)
  }

  private func copy(_ record: Record, _ growth: PackIndexGrowth) -> PackIndexGrowth.Copy {
    growth.copy(record.digest, at: record.address)
  }

  /// Returns the index with this number, or `nil` if it does not exist.
  private func opened(_ number: UInt64) throws -> PackIndex? {
    guard case .index(let index) = try PackIndex.open(number: number, in: bench.packs), index.number == number else {
      return nil
    }
    return index
  }

  /// Semantics, F1a.
  @Test func whatIsNoFileKeepsItsName() throws {
    let old = try bench.index(buckets: 4)
    let path = bench.packs.path.appending(PackIndex.nextName).string
    try check(mkfifo(path, 0o600), "mkfifo")
    let error = expect(.foreignFile) { _ = try growth(of: old) }
    #expect(error?.path?.string == path)
    #expect(try fileState(path)?.permissions == 0o600)
  }

  @Test func theNewIndexHasWhatTheOldOneHad() throws {
    let old = try bench.index(buckets: 30)
    let records = try fill(old, 110)
    let growth = try growth(of: old)
    #expect(growth.new.bucketCount == 45 && growth.new.boot == old.boot && growth.new.number != old.number)
    for record in records {
      #expect(copy(record, growth) == .copied)
      #expect(copy(record, growth) == .isThere)
    }
    #expect(try bench.fileNames() == ["index", "index.next"])
    #expect(try opened(old.number) != nil && opened(growth.new.number) != nil && opened(5) == nil)
    try PackIndexGrowth.takeName(in: bench.packs)
    #expect(try bench.fileNames() == ["index"])
    #expect(try opened(old.number) == nil && opened(growth.new.number)?.entryCount == 110)
    for record in records {
      let (slot, entry) = try #require(growth.new.find(record.digest, at: record.address))
      #expect(growth.new.time(at: slot) == record.time && entry.byteCount == 80)
    }
  }

  @Test func whatIsNotCurrentIsNotCopied() throws {
    let old = try bench.index()
    let record = try fill(old, 1)[0]
    let growth = try growth(of: old)
    #expect(growth.isCurrent(record.digest, at: record.address))
    #expect(!growth.isCurrent(record.digest, at: Self.address(5)))
    #expect(growth.copy(record.digest, at: Self.address(5)) == .isDead)
    let (slot, entry) = try #require(old.find(record.digest, at: record.address))
    #expect(old.compareExchange(at: slot, entry, .empty))
    #expect(copy(record, growth) == .isDead && growth.new.entryCount == 0)
  }

  /// The new index already contains the entry with an earlier time than the last use, so the copy updates the time.
  @Test func aCopyBringsTheLastUse() throws {
    let old = try bench.index()
    let record = try fill(old, 1)[0]
    let growth = try growth(of: old)
    _ = growth.new.publish(80, at: record.address, record.digest, over: nil, time: 1)
    old.setTime(7, of: record.digest, at: record.address)
    #expect(copy(record, growth) == .isThere)
    #expect(try growth.new.time(at: #require(growth.new.find(record.digest, at: record.address)).slot) == 7)
  }

  @Test func aNewIndexThatIsTooSmallSaysSo() throws {
    let old = try bench.index()
    let records = try fill(old, 6)
    let growth = try growth(of: old, buckets: 1)
    #expect(records.map { copy($0, growth) } == [.copied, .copied, .copied, .copied, .copied, .isFull])
    try PackIndexGrowth.giveUp(in: bench.packs)
    #expect(try bench.fileNames() == ["index"] && opened(old.number) != nil)
  }

  @Test func aGrowthThatWasGivenUpIsBegunAnew() throws {
    let old = try bench.index()
    let records = try fill(old, 3)
    let first = try growth(of: old)
    _ = copy(records[0], first)
    let second = try growth(of: old)
    #expect(second.new.number != first.new.number && second.new.entryCount == 0)
    #expect(try opened(first.new.number) == nil && opened(second.new.number) != nil)
  }

  @Test func eachCallMayFail() throws {
    for occurrence in 1... {
      let plan = FaultPlan()
      let bench = try PackBench(files: plan.files())
      let old = try bench.index()
      plan.arm(FaultPlan.Fault(.ioError, call: occurrence))
      let result = Result {
        let growth = try PackIndexGrowth.begin(of: old, in: bench.packs, names: bench.names)
        try PackIndexGrowth.takeName(in: bench.packs)
        return growth.new.number
      }
      let failure = plan.failed.first
      plan.disarm()
      guard let failed = failure else {
        #expect(try bench.opened().number == result.get() && occurrence > 5)
        break
      }
      let growth = try PackIndexGrowth.begin(of: old, in: bench.packs, names: bench.names)
      try PackIndexGrowth.takeName(in: bench.packs)
      #expect(try bench.opened().number == growth.new.number && bench.fileNames() == ["index"], "\(failed)")
    }
  }

  private final class Stripe: Sendable {
    let lock = Lock(())
  }

  /// Changes of many names during the growth, each under its stripe, and first in the new index.
  @Test func changesGoOnMeanwhile() throws {
    let old = try bench.index(buckets: 400)
    let records = try fill(old, 1200)
    let growth = try growth(of: old)
    let stripes = (0..<8).map { _ in Stripe() }
    let current = Lock(Dictionary(uniqueKeysWithValues: records.map { ($0.digest, $0.address) }))
    @Sendable func holding<Result>(_ digest: UInt64, _ body: () -> Result) -> Result {
      stripes[Int(digest >> 60 & 7)].lock.withLock { _ in body() }
    }
    DispatchQueue.concurrentPerform(iterations: 3) { thread in
      if thread == 0 {
        for record in records {
          let outcome = holding(record.digest) { copy(record, growth) }
          #expect(outcome != .isFull)
        }
        return
      }
      for (number, record) in records.enumerated() where number % 3 == thread {
        holding(record.digest) {
          // The record is replaced at another address, or removed.
          let isRemoved = number % 2 == 0
          let next = Self.address(2000 + number)
          for index in [growth.new, old] {
            let desired = IndexEntry(tag: index.tag(of: record.digest), byteCount: 80, address: next)
            if let (slot, entry) = index.find(record.digest, at: record.address) {
              #expect(index.compareExchange(at: slot, entry, isRemoved ? .empty : desired))
            } else if !isRemoved {
              #expect(index.insert(desired, record.digest, time: 0) != nil)
            }
          }
          current.withLock { $0[record.digest] = isRemoved ? nil : next }
        }
      }
    }
    try PackIndexGrowth.takeName(in: bench.packs)
    let expected = current.withLock { $0 }
    #expect(growth.new.entryCount == expected.count && old.entryCount == expected.count)
    for (digest, address) in expected { #expect(growth.new.find(digest, at: address) != nil) }
  }
}
