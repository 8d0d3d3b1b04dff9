import BlobRecord
import Dispatch
import Locks
import TestSupport
import Testing

@testable import BlobStore

@Suite struct ChunkEntryTests {
  let bench: PackBench
  let pack: PackFile

  init() throws {
    bench = try PackBench()
    pack = try bench.pack()
  }

  @Test func aTakenChunkIsTheSessions() throws {
    let entry = try bench.openChunk(5, owner: 1 << 56 - 1, in: pack)
    #expect(entry.state == ChunkState(.open, owner: 1 << 56 - 1))
    #expect(entry.state.kind == .open && entry.state.owner == 1 << 56 - 1)
    #expect(entry.chunkClass == .survivors && entry.openingSequence == 1)
    #expect(entry.end == 0 && entry.inFlight == 0 && entry.liveByteCount == 0 && entry.liveRecordCount == 0)
    #expect(!entry.take(for: .durable, owner: 2, sequence: 9))
    #expect(try bench.pack().entry(ofChunk: 5).state == entry.state)
    #expect(pack.firstFreeChunk() == 0)
    _ = try bench.openChunk(0, in: pack)
    #expect(pack.firstFreeChunk() == 1)
    // The fields have their specified offsets.
    let bytes = try bytes(ofFile: bench.path("p-0"))[(4096 + 5 * 64)...].prefix(64)
    #expect(
      Array(bytes) == [1] + [UInt8](repeating: 0xFF, count: 7) + Self.zeros(16) + [7] + Self.zeros(15) + [1]
        + Self.zeros(7) + Self.latest + Self.latest)
  }

  /// The stored bytes of a time that no record has lowered.
  private static let latest = [UInt8](repeating: 0xFF, count: 7) + [0x7F]

  private static func zeros(_ count: Int) -> [UInt8] { [UInt8](repeating: 0, count: count) }

  @Test func roomIsGivenOutInOrderUntilTheChunkIsFull() throws {
    var random = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "roomIsGivenOutInOrder"))
    let entry = try bench.openChunk(in: pack)
    var (end, count) = (0, 0)
    while true {
      let byteCount = Int.random(in: 64...32_752, using: &random)
      let expected = PackLayout.place(after: end, byteCount: byteCount)
      #expect(entry.reserve(byteCount, owner: 7) == expected)
      guard let expected else { break }
      end = expected + byteCount
      count += 1
      #expect(entry.end == end && entry.inFlight == count)
    }
    for left in (0..<count).reversed() {
      entry.endFlight()
      #expect(entry.inFlight == left)
    }
    entry.endFlight()
    #expect(entry.inFlight == 0 && entry.end == end)
  }

  @Test func othersGetNoRoom() throws {
    let entry = try bench.openChunk(in: pack)
    #expect(entry.reserve(64, owner: 8) == nil)
    #expect(!entry.seal(owner: 8))
    #expect(pack.entry(ofChunk: 1).reserve(64, owner: 7) == nil)
    #expect(entry.inFlight == 0 && entry.end == 0)
  }

  @Test func aSealedChunkGivesNothingOutAndKeepsItsCounts() throws {
    let entry = try bench.openChunk(in: pack)
    _ = (entry.reserve(100, owner: 7), entry.reserve(64, owner: 7))
    #expect(entry.seal(owner: 7))
    #expect(entry.state == ChunkState(.sealed, owner: 7))
    #expect(entry.reserve(64, owner: 7) == nil && !entry.seal(owner: 7))
    #expect(entry.inFlight == 2 && entry.end == 168)
    entry.endFlight()
    #expect(entry.inFlight == 1 && entry.end == 168)
  }

  @Test func aCollectedChunkIsFreeAndCanBeTakenAgain() throws {
    let entry = try bench.openChunk(in: pack)
    #expect(!entry.beginCollection() && !entry.free())
    _ = entry.reserve(100, owner: 7)
    entry.noteExpiry(5)
    entry.countLive(records: 1, bytes: 100)
    #expect(entry.seal(owner: 7) && entry.beginCollection())
    #expect(entry.state == ChunkState(.collecting, owner: 7))
    // After a collection was killed, the next one continues.
    #expect(entry.beginCollection())
    entry.endCollection()
    #expect(entry.state == ChunkState(.sealed, owner: 7))
    entry.endCollection()
    #expect(entry.state.kind == .sealed && !entry.free())
    #expect(entry.beginCollection() && entry.free())
    #expect(entry.state == .free)
    #expect((0..<4).allSatisfy { pack.deadBits(ofChunk: 0).salt(ofQuarter: $0) == nil })
    #expect(!entry.beginCollection() && !entry.free())
    #expect(entry.take(for: .durable, owner: 9, sequence: 3))
    #expect(entry.inFlight == 0 && entry.end == 0 && entry.latestExpiry == 0 && entry.liveRecordCount == 0)
    #expect(entry.liveByteCount == 0 && entry.chunkClass == .durable && entry.openingSequence == 3)
    #expect(entry.reserve(64, owner: 9) == 0)
  }

  /// A session acquires the state first and room last.
  @Test func aSessionThatDiesWhileItTakesAChunkLeavesNoRoom() throws {
    let entry = try bench.openChunk(in: pack)
    #expect(entry.seal(owner: 7) && entry.beginCollection() && entry.free())
    #expect(entry.compareExchange(.free, ChunkState(.open, owner: 8)))
    #expect(entry.reserve(64, owner: 8) == nil && entry.inFlight == 0)
    #expect(entry.seal(owner: 8) && entry.beginCollection() && entry.free())
    #expect(entry.take(for: .survivors, owner: 9, sequence: 1) && entry.reserve(64, owner: 9) == 0)
  }

  @Test func hintsAreCounted() throws {
    let entry = try bench.openChunk(in: pack)
    entry.countLive(records: 2, bytes: 300)
    entry.countLive(records: -1, bytes: -100)
    #expect(entry.liveRecordCount == 1 && entry.liveByteCount == 200)
    for seconds: UInt64 in [5, 9, 7] { entry.noteExpiry(seconds) }
    #expect(entry.latestExpiry == 9)
  }

  @Test func theEarliestTimesAreNoted() throws {
    let entry = try bench.openChunk(in: pack)
    func mayHoldExpired(at seconds: Int64) -> Bool {
      entry.mayHoldExpired(at: UnixTime(seconds: seconds), defaultExpiration: 100)
    }
    #expect(!mayHoldExpired(at: .max))
    for (ttl, update): (UInt64, UInt64) in [(50, 1000), (20, 1010), (.max, .max), (70, 990)] {
      entry.noteLife(ttl: ttl, update: update)
    }
    #expect(!mayHoldExpired(at: 1030) && mayHoldExpired(at: 1031))
    for update: UInt64 in [950, 920, 990] { entry.noteLife(ttl: 0, update: update) }
    #expect(!mayHoldExpired(at: 1020) && mayHoldExpired(at: 1021))
    // The times of the former records do not apply after the chunk is taken again.
    #expect(entry.seal(owner: 7) && entry.beginCollection() && entry.free())
    #expect(entry.take(for: .durable, owner: 9, sequence: 3) && !mayHoldExpired(at: .max))
  }

  /// A program that records no times leaves a chunk of which no times are known.
  @Test func aChunkOfWhichNothingIsKnownMayHoldExpiredRecords() throws {
    let entry = pack.entry(ofChunk: 5)
    #expect(entry.mayHoldExpired(at: UnixTime(seconds: 1), defaultExpiration: .max))
    entry.noteLife(ttl: 50, update: 1000)
    #expect(entry.mayHoldExpired(at: UnixTime(seconds: 1), defaultExpiration: .max))
  }

  @Test(arguments: [4, 5, 127, 128, 255]) func aStateOfNoVersionIsLeftAlone(number: UInt64) throws {
    let entry = pack.entry(ofChunk: 0)
    let state = ChunkState(rawValue: 3 << 8 | number)
    #expect(entry.compareExchange(.free, state) && !entry.compareExchange(.free, state))
    #expect(state.kind == nil && state.owner == 3)
    #expect(!entry.take(for: .survivors, owner: 1, sequence: 0) && !entry.free() && !entry.beginCollection())
    #expect(entry.reserve(64, owner: 3) == nil && !entry.seal(owner: 3))
    #expect(entry.state == state)
  }

  // MARK: Concurrent use

  /// Each thread has a separate mapping, as processes have.
  @Test func oneOfManyTakesAChunk() throws {
    let entries = try (0..<4).map { _ in try bench.pack().entry(ofChunk: 0) }
    for round: UInt64 in 1...50 {
      let taken = CallCount()
      DispatchQueue.concurrentPerform(iterations: 4) { thread in
        if entries[thread].take(for: .survivors, owner: round << 2 | UInt64(thread), sequence: 0) { taken.add(1) }
      }
      #expect(taken.value == 1)
      let owner = entries[0].state.owner
      #expect(owner >> 2 == round)
      let ended = CallCount()
      DispatchQueue.concurrentPerform(iterations: 4) { thread in
        if entries[thread].seal(owner: owner) { ended.add(1) }
      }
      DispatchQueue.concurrentPerform(iterations: 4) { thread in
        if entries[thread].beginCollection(), entries[thread].free() { ended.add(1) }
      }
      #expect(ended.value == 2 && entries[0].state == .free)
    }
  }

  @Test func roomIsGivenOutOnceHoweverManyAsk() throws {
    let entries = try (0..<4).map { _ in try bench.pack().entry(ofChunk: 0) }
    _ = try bench.openChunk(in: pack)
    let places = Lock<[Range<Int>]>([])
    DispatchQueue.concurrentPerform(iterations: 4) { thread in
      var random = SeededGenerator(seed: 1, thread)
      var own: [Range<Int>] = []
      while true {
        let byteCount = Int.random(in: 64...1000, using: &random)
        guard let place = entries[thread].reserve(byteCount, owner: 7) else { break }
        own.append(place..<place + byteCount)
        if own.count % 2 == 0 { entries[thread].endFlight() }
      }
      places.withLock { $0 += own }
      for _ in 0..<(own.count + 1) / 2 { entries[thread].endFlight() }
    }
    let sorted = places.withLock { $0.sorted { $0.lowerBound < $1.lowerBound } }
    #expect(zip(sorted, sorted.dropFirst()).allSatisfy { $0.upperBound <= $1.lowerBound })
    #expect(sorted.count > 900 && sorted.last!.upperBound <= 1_032_192)
    #expect(entries[0].inFlight == 0)
  }

  /// Room reserved before the chunk was sealed is counted, and no room is reserved after that.
  @Test func sealingAndReservingAtOnce() throws {
    for round in 0..<50 {
      let entry = try bench.openChunk(round, in: pack)
      let given = CallCount()
      DispatchQueue.concurrentPerform(iterations: 4) { thread in
        if thread == 0 {
          #expect(entry.seal(owner: 7))
          let (inFlight, end) = (entry.inFlight, entry.end)
          #expect(end == inFlight * 64)
        } else {
          while entry.reserve(64, owner: 7) != nil { given.add(1) }
        }
      }
      #expect(entry.inFlight == given.value && entry.end == given.value * 64)
    }
  }
}
