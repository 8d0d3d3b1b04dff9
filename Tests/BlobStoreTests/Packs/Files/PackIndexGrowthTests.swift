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

  /// Records of names with digests of their own, each where no other lies.
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
    try #require(try PackIndexGrowth.begin(of: index, bucketCount: buckets, in: bench.packs, names: bench.names))
  }

  private func copy(_ record: Record, _ growth: PackIndexGrowth) -> PackIndexGrowth.Copy {
    growth.copy(record.digest, at: record.address)
  }

  private func inForce() throws -> PackIndex {
    guard case .index(let index) = try PackIndex.openInForce(in: bench.packs) else {
      throw PackBench.Unexpected(what: "no index in force")
    }
    return index
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
    #expect(try bench.fileNames() == ["index", "index.next"] && inForce().number == old.number)
    #expect(try growth.finish(in: bench.packs))
    #expect(try bench.fileNames() == ["index"] && inForce().number == growth.new.number)
    #expect(old.successor == growth.new.number && growth.new.entryCount == 110)
    for record in records {
      let (slot, entry) = try #require(growth.new.find(record.digest, at: record.address))
      #expect(growth.new.time(at: slot) == record.time && entry.byteCount == 80)
    }
    #expect(try PackIndexGrowth.begin(of: old, in: bench.packs, names: bench.names) == nil)
    #expect(try !growth.finish(in: bench.packs))
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

  @Test func aNewIndexThatIsTooSmallSaysSo() throws {
    let old = try bench.index()
    let records = try fill(old, 6)
    let growth = try growth(of: old, buckets: 1)
    #expect(records.map { copy($0, growth) } == [.copied, .copied, .copied, .copied, .copied, .isFull])
    try PackIndexGrowth.giveUp(in: bench.packs)
    #expect(try bench.fileNames() == ["index"] && inForce().number == old.number)
  }

  /// What a process leaves that dies in between, at each step.
  @Test func aGrowthThatWasCutOffIsBegunAnewOrCompleted() throws {
    let old = try bench.index()
    let records = try fill(old, 3)
    let first = try growth(of: old)
    _ = copy(records[0], first)
    let second = try growth(of: old)
    #expect(second.new.number != first.new.number && second.new.entryCount == 0)
    #expect(try inForce().number == old.number)
    for record in records { _ = copy(record, second) }
    // Dead before the new index has its name.
    #expect(old.setSuccessor(second.new.number))
    #expect(try bench.fileNames() == ["index", "index.next"])
    #expect(try inForce().number == second.new.number && bench.fileNames() == ["index"])
    #expect(try inForce().entryCount == 3)
  }

  @Test func anIndexWhoseSuccessorIsMissingIsDamaged() throws {
    let old = try bench.index()
    #expect(old.setSuccessor(5))
    guard case .damaged(let reason) = try PackIndex.openInForce(in: bench.packs) else {
      Issue.record("it was opened")
      return
    }
    #expect(reason.contains("successor"))
    // Nor is one of another number its successor.
    _ = try PackIndex.make(PackIndex.nextName, bucketCount: 1, boot: .zero, in: bench.packs, names: bench.names)
    guard case .damaged = try PackIndex.openInForce(in: bench.packs) else {
      Issue.record("it was opened")
      return
    }
  }

  @Test func eachCallMayFail() throws {
    for occurrence in 1... {
      let plan = FaultPlan()
      let bench = try PackBench(files: plan.files())
      let old = try bench.index()
      plan.arm(FaultPlan.Fault(.ioError, call: occurrence))
      let result = Result {
        let growth = try #require(try PackIndexGrowth.begin(of: old, in: bench.packs, names: bench.names))
        return (growth, try growth.finish(in: bench.packs))
      }
      guard let failed = plan.failed.first else {
        #expect(try result.get().1 && occurrence > 10)
        break
      }
      plan.disarm()
      guard case .index(let index) = try PackIndex.openInForce(in: bench.packs) else {
        Issue.record("no index after \(failed)")
        continue
      }
      // Either growth is begun anew, or it was only the name that was missing.
      if index.number == old.number {
        let growth = try #require(try PackIndexGrowth.begin(of: old, in: bench.packs, names: bench.names), "\(failed)")
        #expect(try growth.finish(in: bench.packs))
      }
      #expect(try bench.fileNames() == ["index"], "\(failed)")
    }
  }

  private final class Stripe: Sendable {
    let lock = Lock(())
  }

  /// Changes of many names while the index grows, each under its stripe, in the new index first.
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
          // Replaced by another address, or removed.
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
    #expect(try growth.finish(in: bench.packs))
    let expected = current.withLock { $0 }
    #expect(growth.new.entryCount == expected.count && old.entryCount == expected.count)
    for (digest, address) in expected { #expect(growth.new.find(digest, at: address) != nil) }
  }
}
