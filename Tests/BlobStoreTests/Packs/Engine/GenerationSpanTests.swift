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
