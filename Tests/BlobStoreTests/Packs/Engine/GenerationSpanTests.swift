import BlobRecord
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Invariant I3: a generation is odd from the first step that changes what loads find to the last one, whoever makes it.
///
/// A memory tier keeps a blob under the even generation from before its read. So no even generation may stand for two blobs, neither
/// while a change is made nor after a killed one was finished by the next process.
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

  /// What loads have found under each even generation.
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

  /// A key whose stripe is that of "key", and whose generation is another one.
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

  /// The process is killed before each call. A copy of the directory has no locks of the living, so its next change finishes it: one
  /// of the key, or of a key that shares its stripe.
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
        // A change of the key that leaves its blob as it is.
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
