import BlobRecord
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Invariant I3: a generation is odd from the first to the last step of a change that loads can see, in any process.
///
/// A memory tier stores a blob with the even generation read before the blob. So an even generation must never belong
/// to two blobs, neither during a change nor after the next process has finished a killed change.
@Suite struct GenerationSpanTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  enum Change: CaseIterable {
    case toFile, toPack, replace, remove, removeFile, lock

    var isFileBefore: Bool { self == .toPack || self == .removeFile }

    func make(in store: BlobStore) throws {
      switch self {
      case .toFile: try store.store(payload(9000, 2), for: "key")
      case .toPack, .replace: try store.store(payload(100, 2), for: "key")
      case .remove, .removeFile: try store.remove("key")
      case .lock: try store.lock("key")
      }
    }
  }

  /// The blobs that loads have found under each even generation.
  private struct Sightings {
    var blobs: [UInt64: Data?] = [:]
    var conflicts: [String] = []

    mutating func look(at store: BlobStore, _ moment: String) throws {
      let generation = try store.generation(of: "key")
      let found = try store.load("key", touching: false)?.payload
      guard let generation, generation.isMultiple(of: 2), try store.generation(of: "key") == generation else { return }
      if let before = blobs[generation], before != found {
        conflicts.append("\(moment): generation \(generation) stands for two blobs")
      }
      blobs[generation] = .some(found)
    }
  }

  private static func configure(_ configuration: inout BlobStore.Configuration) {
    configuration.packing = .upTo(8192)
    configuration.durability = .full
  }

  /// Each way to write a packed record whose index is rebuilt before the record is published.
  enum Write: CaseIterable {
    case replace, toPack, batch, extend

    func make(in store: BlobStore, with neighbor: BlobKey) throws {
      switch self {
      case .replace, .toPack: try store.store(payload(100, 2), for: "key")
      case .batch:
        let blobs: [(key: BlobKey, payload: Data)] = [(neighbor, payload(50)), ("key", payload(60))]
        for result in store.store(blobs) { _ = try result.result.get() }
      case .extend: try store.setExtendedData(Data("more".utf8), for: "key")
      }
    }
  }

  /// A rebuilt index contains each record whose bytes are complete, so loads may find a record before it is published.
  @Test(arguments: Write.allCases) func noGenerationStandsForTwoBlobsInARebuiltIndex(write: Write) throws {
    let (trace, rebuilds) = (CallTrace(), CallCount())
    let sightings = Lock(Sightings())
    let store = try cache.store(files: trace.files, Self.configure)
    try store.store(payload(write == .toPack ? 9000 : 100, 1), for: "key")
    // Its stripe comes first in the order of a batch.
    let stripe = try ControlLayout.stripe(of: store.core.path(for: "key").digest)
    let neighbor = try #require(
      try (0..<1000).map { BlobKey("\($0)") }.first {
        try ControlLayout.stripe(of: store.core.path(for: $0).digest) < stripe
      })
    try store.store(payload(10), for: neighbor)
    let observer = try cache.store(Self.configure)
    try sightings.withLock { try $0.look(at: observer, "at first") }
    let control = try #require(
      try store.core.controlFiles.controlFile(of: store.core.root.openedOrMade(), makesIt: false))
    trace.onCall { call, _ in
      guard call == .exchangeEntry, rebuilds.value == 0 else { return nil }
      rebuilds.add(1)
      control.setPackIndexNumber(0)
      #expect(throws: Never.self) {
        try LockOrder.outside { try sightings.withLock { try $0.look(at: observer, "after the rebuild") } }
      }
      return nil
    }
    try write.make(in: store, with: neighbor)
    trace.onCall(nil)
    try sightings.withLock { try $0.look(at: observer, "at the end") }
    #expect(rebuilds.value == 1)
    #expect(sightings.withLock { $0.conflicts } == [])
  }

  @Test(arguments: Change.allCases) func noGenerationStandsForTwoBlobs(change: Change) throws {
    let trace = CallTrace()
    let sightings = Lock(Sightings())
    let store = try cache.store(files: trace.files, Self.configure)
    try store.store(payload(100), for: "other")
    try store.store(payload(change.isFileBefore ? 9000 : 100, 1), for: "key")
    let observer = try cache.store(Self.configure)
    let calls = CallCount()
    trace.onCall(besides: [.takeStripe, .freeStripe]) { call, _ in
      calls.add(1)
      #expect(throws: Never.self) {
        try sightings.withLock { try $0.look(at: observer, "before call \(calls.value), \(call)") }
      }
      return nil
    }
    try change.make(in: store)
    trace.onCall(nil)
    try sightings.withLock { try $0.look(at: observer, "at the end") }
    #expect(calls.value > 3)
    #expect(sightings.withLock { $0.conflicts } == [])
  }

  /// Returns a key that shares the stripe of "key", but has a different generation.
  private static func neighbor(in store: BlobStore) throws -> BlobKey {
    let digest = try store.core.path(for: "key").digest
    var number = 0
    while true {
      let key = BlobKey("neighbor \(number)")
      let other = try store.core.path(for: key).digest
      if ControlLayout.stripe(of: other) == ControlLayout.stripe(of: digest),
        ControlLayout.generationOffset(of: other) != ControlLayout.generationOffset(of: digest)
      {
        return key
      }
      number += 1
    }
  }

  /// The process is killed before each call. A copy of the directory has no locks of living processes, so its next
  /// change of the key, or of a key with the same stripe, finishes the killed change.
  @Test(arguments: Change.allCases, [true, false])
  func aFinishedChangeHasAGenerationOfItsOwn(change: Change, isFinishedByAnotherKey: Bool) throws {
    let neighbor = try Self.neighbor(in: cache.store(Self.configure))
    var (call, wasReached) = (0, true)
    while wasReached {
      let (cache, copy, trace) = (try Cache(), try Cache(), CallTrace())
      let store = try cache.store(files: trace.files, Self.configure)
      try store.store(payload(100), for: "other")
      try store.store(payload(change.isFileBefore ? 9000 : 100, 1), for: "key")
      let (calls, from, to) = (CallCount(), cache.root.string, copy.root.string)
      trace.onCall(besides: [.takeStripe, .freeStripe]) { [call] _, _ in
        defer { calls.add(1) }
        if calls.value == call {
          #expect(throws: Never.self) { try FileManager.default.copyItem(atPath: from, toPath: to) }
        }
        return nil
      }
      try change.make(in: store)
      trace.onCall(nil)
      wasReached = calls.value > call
      guard wasReached else { break }
      var sightings = Sightings()
      let other = try copy.store(Self.configure)
      try sightings.look(at: other, "before it is finished")
      if isFinishedByAnotherKey {
        try other.store(payload(10), for: neighbor)
      } else {
        // These changes leave the blob of the key unchanged.
        try other.lock("key")
        try other.unlock("key")
      }
      try sightings.look(at: other, "after it was finished")
      #expect(sightings.conflicts == [], "killed before call \(call)")
      call += 1
    }
    #expect(call > 3)
  }
}
