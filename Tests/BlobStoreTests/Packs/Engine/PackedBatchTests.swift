import BlobRecord
import Foundation
import Locks
import Posix
import TestSupport
import Testing

@testable import BlobStore

/// Batches of stores.
@Suite struct PackedBatchTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// Makes the counters known by a whole collection.
  private func countFromNow(_ store: BlobStore) throws {
    try store.store(Data(), for: Self.key(0))
    _ = try store.collect()
    #expect(try store.usageEstimate()?.records == 1)
  }

  private static func key(_ number: Int) -> BlobKey { BlobKey("key \(number)") }

  private static func payload(_ number: Int, _ seed: Int = 0) -> Data {
    Data(repeating: UInt8(truncatingIfNeeded: number &+ seed), count: 100 + number % 50)
  }

  private func expectDone(_ results: [BlobStore.KeyResult], _ keys: [BlobKey]) throws {
    #expect(results.map(\.key) == keys)
    for result in results { #expect(try result.result.get() == .done) }
  }

  @Test(arguments: [BlobStore.Durability.none, .full]) func blobsAreStored(durability: BlobStore.Durability) throws {
    let store = try store { $0.durability = durability }
    try countFromNow(store)
    let numbers = Array(0..<1000)
    try expectDone(
      store.store(numbers.map { (Self.key($0), Self.payload($0)) }, ttl: .seconds(100)), numbers.map(Self.key))
    // Every third record is replaced, one key occurs twice, and one payload is too large for a pack.
    let large = Data(repeating: 7, count: 20_000)
    var second = numbers.filter { $0 % 3 == 0 }.map { (key: Self.key($0), payload: Self.payload($0, 1)) }
    second.insert((Self.key(3), Data([1])), at: 5)
    second.append((Self.key(4), large))
    try expectDone(store.store(second, ttl: .seconds(200)), second.map(\.key))
    for each in [store, try cache.store()] {
      for number in numbers {
        let expected =
          switch number {
          case 3: Data([1])
          case 4: large
          default: Self.payload(number, number % 3 == 0 ? 1 : 0)
          }
        #expect(try each.load(Self.key(number))?.payload == expected, "\(number)")
        #expect(try each.header(for: Self.key(number))?.ttl == (number % 3 == 0 || number == 4 ? 200 : 100))
      }
    }
    #expect(try store.usageEstimate()?.records == 1000)
    #expect(try store.usage().records == 1000)
  }

  @Test func theyAreWrittenByOneCall() throws {
    let trace = CallTrace()
    let store = try store(files: trace.files)
    try store.store(Data([1]), for: "first")
    _ = trace.take()
    let blobs = (0..<256).map { (key: Self.key($0), payload: Self.payload($0)) }
    try expectDone(store.store(blobs), blobs.map(\.key))
    // Keys that share a stripe with another key are stored separately.
    #expect(trace.count(.write) < 20)
    #expect(trace.count(.read) < 20)
  }

  /// Another thread stores into the same chunk while the batch reserves its room.
  @Test func whatLiesBetweenIsLeftAlone() throws {
    let trace = CallTrace()
    let store = try store(files: trace.files)
    let numbers = Array(0..<8)
    func stripe(_ number: Int) throws -> Int {
      ControlLayout.stripe(of: try store.core.path(for: Self.key(number)).digest)
    }
    let stripes = Set(try numbers.map(stripe))
    for number in numbers { try store.store(Self.payload(number), for: Self.key(number)) }
    let others = try (100..<200).filter { try !stripes.contains(stripe($0)) }
    let reads = CallCount()
    trace.onCall { call, _ in
      // A record to be replaced is read immediately before room for its successor is reserved.
      guard call == .read else { return nil }
      let other = others[reads.value]
      reads.add(1)
      #expect(throws: Never.self) { try store.store(Self.payload(other), for: Self.key(other)) }
      return nil
    }
    let results = store.store(numbers.map { (Self.key($0), Self.payload($0, 1)) })
    trace.onCall(nil)
    try expectDone(results, numbers.map(Self.key))
    #expect(reads.value >= 8)
    for number in numbers { #expect(try store.load(Self.key(number))?.payload == Self.payload(number, 1)) }
    for other in others.prefix(reads.value) {
      #expect(try store.load(Self.key(other))?.payload == Self.payload(other), "\(other)")
    }
  }

  @Test(arguments: [BlobStore.LockPolicy.one, .keep]) func locksAreThoseOfTheStore(locks: BlobStore.LockPolicy) throws {
    let store = try store()
    for number in 0..<20 { try store.store(Self.payload(number), for: Self.key(number), locks: .one) }
    let blobs = (0..<40).map { (key: Self.key($0), payload: Self.payload($0, 1)) }
    try expectDone(store.store(blobs, locks: locks), blobs.map(\.key))
    for number in 0..<40 {
      let expected: UInt32 = locks == .one || number < 20 ? 1 : 0
      #expect(try store.header(for: Self.key(number))?.refCount == expected, "\(number)")
      #expect(try store.load(Self.key(number))?.payload == Self.payload(number, 1))
    }
  }

  /// Only the blob whose key another process changes fails.
  @Test func oneThatIsBusyKeepsNoOther() throws {
    let store = try store { $0.access.lockTimeout = .zero }
    try store.store(Data([1]), for: "first")
    let digest = try store.core.path(for: Self.key(7)).digest
    let held = try HeldLocks(in: cache)
    let stripe = Int64(ControlLayout.stripe(of: digest))
    #expect(try held.take(stripe..<stripe + 1))
    let results = store.store((0..<40).map { (Self.key($0), Self.payload($0)) })
    for (number, result) in results.enumerated() {
      let isHeld = try ControlLayout.stripe(of: store.core.path(for: Self.key(number)).digest) == Int(stripe)
      switch result.result {
      case .success: #expect(!isHeld)
      case .failure(let error): #expect(isHeld && error.code == .busy)
      }
      #expect(try store.load(Self.key(number))?.payload == (isHeld ? nil : Self.payload(number)))
    }
    try held.giveBack(stripe..<stripe + 1)
  }

  /// A process is killed, or another process makes changes, between any two steps.
  @Test func killsAndChangesMayComeBetweenAllSteps() throws {
    let count = CallCount()
    for chosen in stride(from: 1, to: 10_000, by: 5) {
      let (cache, copy, trace) = (try Cache(), try Cache(), CallTrace())
      let configure: (inout BlobStore.Configuration) -> Void = {
        $0.packing = .upTo(8192)
        $0.access.lockTimeout = .zero
      }
      let (store, other) = try (cache.store(files: trace.files, configure), cache.store(configure))
      for number in 0..<8 { try store.store(Self.payload(number), for: Self.key(number)) }
      let steps = CallCount()
      let changed = Lock<[Int]>([])
      trace.onCall { _, _ in
        steps.add(1)
        guard steps.value == chosen else { return nil }
        count.add(1)
        #expect(throws: Never.self) {
          try FileManager.default.copyItem(atPath: cache.root.string, toPath: copy.root.string)
          for number in [1, 9] {
            do {
              try other.store(Data([UInt8(number)]), for: Self.key(number))
              changed.withLock { $0.append(number) }
            } catch let error as BlobStoreError where error.code == .busy {
            }
          }
        }
        return nil
      }
      let results = store.store((0..<12).map { (Self.key($0), Self.payload($0, 1)) })
      trace.onCall(nil)
      guard steps.value >= chosen else { break }
      for (number, result) in results.enumerated() {
        #expect(throws: Never.self) { try result.result.get() }
        let allowed =
          [Self.payload(number, 1)] + (changed.withLock { $0.contains(number) } ? [Data([UInt8(number)])] : [])
        let loaded = try #require(try other.load(Self.key(number))?.payload)
        #expect(allowed.contains(loaded), "\(number), step \(chosen)")
      }
      let survivor = try copy.store(configure)
      for number in 0..<12 {
        let loaded = try survivor.load(Self.key(number))?.payload
        let before = number < 8 ? Self.payload(number) : nil
        #expect(loaded == before || loaded == Self.payload(number, 1), "\(number), killed before step \(chosen)")
        try survivor.store(Data([3]), for: Self.key(number))
        #expect(try survivor.load(Self.key(number))?.payload == Data([3]))
        try survivor.remove(Self.key(number))
        #expect(try survivor.load(Self.key(number)) == nil, "\(number), killed before step \(chosen)")
      }
      #expect(try survivor.usage().records == 0)
    }
    #expect(count.value > 10)
  }

  /// After a failed write, each of the remaining blobs is stored separately and reports its own error.
  @Test func aFailedWriteLeavesNothingBehind() throws {
    let plan = FaultPlan()
    let store = try store(files: plan.files())
    try countFromNow(store)
    for number in 0..<8 { try store.store(Self.payload(number), for: Self.key(number)) }
    plan.refuse(.write, .ioError)
    for result in store.store((0..<12).map { (Self.key($0), Self.payload($0, 1)) }) {
      #expect(throws: BlobStoreError.self) { try result.result.get() }
    }
    let other = try self.store()
    for number in 0..<12 {
      #expect(try other.load(Self.key(number))?.payload == (number < 8 ? Self.payload(number) : nil), "\(number)")
    }
    #expect(try other.usage().records == 8 && other.usageEstimate()?.records == 8)
  }

  /// The index is rebuilt concurrently and cannot be read, so each record may be found later.
  @Test func aFailedPublicationIsTold() throws {
    let (trace, isFailing) = (CallTrace(), CallCount())
    let store = try store(files: trace.files)
    for number in 0..<8 { try store.store(Self.payload(number), for: Self.key(number)) }
    let control = try #require(
      try store.core.controlFiles.controlFile(of: store.core.root.openedOrMade(), makesIt: true))
    trace.onCall { call, path in
      if call == .write, path.string.hasSuffix("p-0") {
        control.setPackIndexNumber(0)
        isFailing.add(1)
      }
      return isFailing.value > 0 && ![.write, .close].contains(call) ? .fail(.ioError) : nil
    }
    for result in store.store((0..<12).map { (Self.key($0), Self.payload($0, 1)) }) {
      #expect(throws: BlobStoreError.self) { try result.result.get() }
    }
    trace.onCall(nil)
    for each in [store, try self.store()] {
      for number in 0..<12 {
        let loaded = try each.load(Self.key(number))?.payload
        #expect(loaded == (number < 8 ? Self.payload(number) : nil) || loaded == Self.payload(number, 1), "\(number)")
      }
    }
    for number in 0..<12 {
      try store.store(Data([3]), for: Self.key(number))
      #expect(try self.store().load(Self.key(number))?.payload == Data([3]))
      try store.remove(Self.key(number))
    }
    #expect(try store.usage().records == 0)
  }
}
