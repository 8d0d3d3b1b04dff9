import BlobRecord
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// With a checkpoint, a boot finds the same records as a walk of all chunks.
@Suite struct PackCheckpointTests: CheckpointSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  @Test func whatIsCoveredIsNotWalked() throws {
    try makeCheckpoint()
    let reads = try expectAfterBoot([:])
    // Two of the reads are for the pack's header.
    #expect(reads <= 5, "\(reads) reads")
    try FileManager.default.removeItem(atPath: checkpoint)
    let all = try expectAfterBoot([:])
    #expect(all > Self.count / 16, "\(all) reads")
  }

  @Test func whatHasChangedSinceIsFound() throws {
    try makeCheckpoint()
    var expected: [Int: Data?] = [:]
    do {
      let writer = try store()
      for number in stride(from: 0, to: Self.count, by: 7) {
        try writer.store(Self.payload(number, 1), for: Self.key(number))
        expected[number] = Self.payload(number, 1)
      }
      for number in stride(from: 1, to: Self.count, by: 7) {
        try writer.remove(Self.key(number))
        expected[number] = .some(nil)
      }
      for number in stride(from: 2, to: Self.count, by: 35) { try writer.lock(Self.key(number)) }
      for number in Self.count..<Self.count + 50 {
        try writer.store(Self.payload(number), for: Self.key(number))
        expected[number] = Self.payload(number)
      }
    }
    try expectAfterBoot(expected)
    let store = try store()
    for number in 0..<Self.count where number % 7 != 1 {
      #expect(try store.header(for: Self.key(number))?.refCount == (number % 35 == 2 ? 1 : 0), "\(number)")
    }
    // Records stored from here on are the newest.
    try store.store(Self.payload(2, 2), for: Self.key(2))
    expected[2] = Self.payload(2, 2)
    try FileManager.default.removeItem(atPath: checkpoint)
    try expectAfterBoot(expected)
  }

  /// A power cut has reverted the marks of dead records: the newer record counts, and the older one is marked again.
  @Test func anOlderRecordThatIsCoveredGivesWay() throws {
    try makeCheckpoint()
    let numbers = [3, 77, 210]
    let places = try numbers.map { try #require(try store().place(of: Self.key($0))) }
    do {
      let writer = try store()
      for number in numbers { try writer.store(Self.payload(number, 1), for: Self.key(number)) }
    }
    for place in places { try setDead(false, PackAddress(rawValue: place)) }
    let expected = Dictionary(uniqueKeysWithValues: numbers.map { ($0, Optional(Self.payload($0, 1))) })
    try expectAfterBoot(expected)
    let writer = try store()
    for number in numbers { try writer.remove(Self.key(number)) }
    try FileManager.default.removeItem(atPath: checkpoint)
    try expectAfterBoot(expected.mapValues { _ in Data?.none })
  }

  /// The newer record is covered, and an older one is in a chunk that is not covered.
  @Test func anOlderRecordThatIsNotCoveredGivesWay() throws {
    let writer = try store()
    try writer.store(Self.payload(0, 1), for: Self.key(0))
    let place = PackAddress(rawValue: try #require(try writer.place(of: Self.key(0))))
    // Another process then replaces the record, in a chunk that becomes full.
    try makeCheckpoint()
    try setDead(false, place)
    try expectAfterBoot([:])
  }

  private func setDead(_ isDead: Bool, _ address: PackAddress) throws {
    let file = try FileHandle(forUpdating: URL(filePath: cache.path(".packs/p-0")))
    defer { try? file.close() }
    let offset = UInt64(address.deadWordOffset) + UInt64(address.cell % 64 / 8)
    try file.seek(toOffset: offset)
    let byte = try #require(try file.read(upToCount: 1)?.first)
    let bit = UInt8(1) << UInt8(address.cell % 8)
    try file.seek(toOffset: offset)
    try file.write(contentsOf: Data([isDead ? byte | bit : byte & ~bit]))
  }

  /// A chunk that was reused has other salts than in an old checkpoint, for example, one from a backup.
  @Test func anOldCheckpointCoversNoChunkThatWasUsedAnew() throws {
    try makeCheckpoint()
    let old = try Data(bytes(ofFile: checkpoint))
    var expected = Self.gone(0..<100)
    do {
      let writer = try store()
      for number in 0..<100 { try writer.remove(Self.key(number)) }
    }
    try collect()
    do {
      let writer = try store()
      for number in Self.count..<Self.count + 60 {
        try writer.store(Self.payload(number), for: Self.key(number))
        expected[number] = Self.payload(number)
      }
    }
    try old.write(to: URL(filePath: checkpoint))
    try expectAfterBoot(expected)
  }

  /// Names with the same digest have the same tag, so the name decides.
  @Test func namesOfOneDigestAreToldApart() throws {
    do { try store().store(Self.payload(1), for: CollidingKeys.first) }
    try makeCheckpoint()
    do { try store().store(Self.payload(2), for: CollidingKeys.second) }
    try expectAfterBoot([:])
    #expect(try store().load(CollidingKeys.first)?.payload == Self.payload(1))
    #expect(try store().load(CollidingKeys.second)?.payload == Self.payload(2))
  }

  /// In an index that is rebuilt by a walk, the last use of a record is its store.
  @Test func timesOfUseOutlastABoot() throws {
    do {
      let writer = try store()
      for number in 0..<Self.count { try writer.store(Self.payload(number), for: Self.key(number)) }
      cache.clock.advance(by: 100)
      try writer.touch(Self.key(5))
    }
    try collect()
    try NextBoot.begin(in: cache.root.string)
    #expect(try store().header(for: Self.key(5))?.updateTime == UInt64(cache.now))
    #expect(try store().header(for: Self.key(6))?.updateTime == UInt64(cache.now - 100))
  }

  /// The independent reader was written in Python from the specification.
  @Test(.enabled(if: PackReader.isInstalled, "needs python3"))
  func anIndependentReaderFindsWhatABootFinds() throws {
    do {
      let writer = try store()
      for number in 0..<Self.count { try writer.store(Self.payload(number), for: Self.key(number)) }
      cache.clock.advance(by: 100)
      for number in stride(from: 2, to: Self.count, by: 7) { try writer.touch(Self.key(number)) }
    }
    let touched = cache.now
    try collect()
    cache.clock.advance(by: 100)
    do {
      let writer = try store()
      for number in stride(from: 0, to: Self.count, by: 7) {
        try writer.store(Self.payload(number, 1), for: Self.key(number))
      }
      for number in stride(from: 1, to: Self.count, by: 7) { try writer.remove(Self.key(number)) }
      for number in Self.count..<Self.count + 50 { try writer.store(Self.payload(number), for: Self.key(number)) }
    }
    let found = try PackReader.records(in: cache.path(".packs"), by: .checkpoint)
    let walked = try PackReader.records(in: cache.path(".packs"), by: .walk)
    #expect(found.map(\.address) == walked.map(\.address))
    // The times are from entries of the checkpoint, because a walk does not find touches.
    #expect(found.count { $0.lastUse == touched } > 40)
    #expect(found.count { $0.lastUse == cache.now } > 100)
    try NextBoot.begin(in: cache.root.string)
    let store = try store()
    let byName = Dictionary(uniqueKeysWithValues: found.map { ($0.name, $0) })
    for number in 0..<Self.count + 50 {
      let record = byName[try store.core.path(for: Self.key(number)).fileName]
      #expect(try store.header(for: Self.key(number))?.updateTime == record?.lastUse.map(UInt64.init), "\(number)")
    }
    let current = try PackAudit(of: cache.root).current.values
    #expect(current.map(\.address.rawValue).sorted() == found.map(\.address))
  }

  // MARK: - When a checkpoint is written

  @Test func noneIsMadeForLittle() throws {
    do { try store().store(Self.payload(0), for: Self.key(0)) }
    #expect(try store { $0.leastCheckpointByteCount = 5000 }.collect().failed == 0)
    #expect(try !cache.exists(".packs/checkpoint"))
  }

  @Test func anotherIsMadeOnceMuchHasCome() throws {
    try makeCheckpoint()
    let first = try bytes(ofFile: checkpoint)
    try collect()
    #expect(try bytes(ofFile: checkpoint) == first)
    do {
      let writer = try store()
      for number in Self.count..<Self.count + 60 { try writer.store(Self.payload(number), for: Self.key(number)) }
    }
    try collect()
    #expect(try bytes(ofFile: checkpoint) != first)
    let expected = (Self.count..<Self.count + 60).map { ($0, Optional(Self.payload($0))) }
    #expect(try expectAfterBoot(Dictionary(uniqueKeysWithValues: expected)) <= 6)
  }

  // MARK: - Order

  /// A chunk is removed from the checkpoint, on the medium, before it is freed.
  @Test func aChunkIsUncoveredBeforeItIsFree() throws {
    try makeCheckpoint()
    do {
      let writer = try store()
      for number in 0..<100 { try writer.remove(Self.key(number)) }
    }
    let before = try covered()
    let trace = CallTrace()
    let file = cache.path(".packs/p-0")
    let states = Lock<[Int]>([])
    trace.onCall { call, path in
      guard call == .sync, path.lastComponent?.string == PackCheckpoint.name else { return nil }
      let used = (try? bytes(ofFile: file)).map { pack in
        (0..<60).count { pack[PackLayout.tableEntryOffset(ofChunk: $0)] != 0 }
      }
      states.withLock { $0.append(used ?? -1) }
      return nil
    }
    let used = try bytes(ofFile: file)
    let usedBefore = (0..<60).count { used[PackLayout.tableEntryOffset(ofChunk: $0)] != 0 }
    try collect(files: trace.files)
    let after = try covered()
    #expect(after.isStrictSubset(of: before) && before.count - after.count >= 5)
    // Each sync of the checkpoint precedes the release of the chunks.
    let seen = states.withLock { $0 }
    #expect(seen.first == usedBefore, "\(seen), \(usedBefore) before")
    let calls = trace.take()
    let written = try #require(calls.firstIndex { $0.call == .write && $0.path == checkpoint })
    #expect(calls[written...].contains { $0.call == .sync && $0.path == checkpoint })
    try expectAfterBoot(Self.gone(0..<100))
  }

  private func covered() throws -> Set<Int> {
    let bytes = try bytes(ofFile: checkpoint)
    return Set(
      (0..<PackLayout.chunkCount).filter { chunk in
        let start = CheckpointLayout.coverOffset(pack: 0, chunk: chunk)
        return bytes[start..<start + CheckpointLayout.coverByteCount].contains { $0 != 0 }
      })
  }

  /// The covered records and the checkpoint are on the medium before the checkpoint has its name.
  @Test func packsAreOnTheMediumBefore() throws {
    let trace = CallTrace()
    try makeCheckpoint(files: trace.files)
    let calls = trace.take()
    let named = try #require(
      calls.firstIndex { $0.path.hasSuffix(".packs/checkpoint") && [.rename, .renameNoReplace].contains($0.call) })
    let syncs = calls[..<named].filter { $0.call == .sync }
    #expect(syncs.dropLast().contains { $0.path.hasSuffix("/p-0") }, "\(syncs)")
    #expect(syncs.last?.path.hasSuffix("/p-0") == false, "\(syncs)")
    #expect(calls[named...].contains { $0.call == .sync && $0.path.hasSuffix(".packs") })
  }

  // MARK: - Failures

  /// Each call of a collection that writes a checkpoint, or removes chunks from one, fails once: no record is lost.
  @Test(arguments: [Errno.ioError, .noSpace]) func everyFailedCallIsHarmless(errno: Errno) throws {
    for isFirst in [true, false] {
      var call = 0
      var isDone = false
      while !isDone {
        call += 1
        let run = try PackCheckpointTests()
        var expected: [Int: Data?] = [:]
        if !isFirst {
          try run.makeCheckpoint()
          let writer = try run.store()
          for number in 0..<100 {
            try writer.remove(Self.key(number))
            expected[number] = .some(nil)
          }
        } else {
          let writer = try run.store()
          for number in 0..<Self.count { try writer.store(Self.payload(number), for: Self.key(number)) }
        }
        let plan = FaultPlan()
        // These calls write the checkpoint and sync the packs.
        let store = try run.store(files: plan.files())
        plan.arm(FaultPlan.Fault(errno, call: call, of: [.write, .sync, .rename, .openUnnamed, .linkUnnamed], .once))
        _ = try? store.collect()
        isDone = plan.failed.isEmpty
        plan.disarm()
        try run.expectAfterBoot(expected)
      }
      #expect(call > 4)
    }
  }

  /// If a stripe is held for too long, the collection still completes its other work.
  @Test func aHeldStripeLeavesTheNextCollectionToMakeIt() throws {
    do {
      let writer = try store()
      for number in 0..<Self.count { try writer.store(Self.payload(number), for: Self.key(number)) }
    }
    let holder = try store()
    let digest = try holder.core.path(for: "other").digest
    let (isHeld, isOver, isFree) = (
      DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
    )
    Thread.detachNewThread {
      do {
        let hold = try holder.core.stripes.hold(digest)
        isHeld.signal()
        isOver.wait()
        _ = consume hold
      } catch {
        Issue.record(error)
        isHeld.signal()
      }
      isFree.signal()
    }
    isHeld.wait()
    #expect(try store { $0.access.lockTimeout = .milliseconds(1) }.collect().failed == 0)
    #expect(try !cache.exists(".packs/checkpoint"))
    isOver.signal()
    isFree.wait()
    try collect()
    #expect(try cache.exists(".packs/checkpoint"))
  }
}

extension BlobStore {
  /// Returns the address of a packed record.
  fileprivate func place(of key: BlobKey) throws -> UInt64? {
    guard let open = try core.root.opened(), let records = try Records(core).packs(of: open) else { return nil }
    return try records.find(try core.path(for: key), by: RecordJudge())?.packAddress
  }
}
