import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Calls of operations on all packed records fail. Each record is unchanged or processed, and a retry succeeds. The
/// short form selects a few calls at random.
@Suite struct PackedPassFaultTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  enum Pass: CaseIterable {
    /// Moves live records, frees chunks, and writes a checkpoint.
    case collection
    case wipe, removalOfPrefix
    case packing, unpacking
    case growth
    case rebuild
  }

  private static let count = 90
  private static let shortCount = 8
  /// A byte that cannot be unlocked stays locked for the life of the process, and steps in memory do not fail.
  private static let kinds = Set(SystemCall.allCases.filter { !$0.isStep && $0 != .unlockByte })

  private func store(files: Files = Files()) throws -> BlobStore {
    try storeOfSmallChunks(files: files) {
      $0.leastCheckpointByteCount = 1
      $0.leastPackIndexEntryCount = 1
    }
  }

  /// Records of three kinds, by number modulo three: locked, removed by the pass, and kept.
  private static func key(_ number: Int) -> BlobKey { BlobKey("\(["locked", "gone", "kept"][number % 3]) \(number)") }

  private static func payload(_ number: Int) -> Data { BlobStoreTests.payload(600, UInt64(number)) }

  private func fill(for pass: Pass) throws {
    let store = try store()
    let files = try cache.store()
    for number in 0..<Self.count {
      let target = pass == .packing ? files : store
      try target.store(Self.payload(number), for: Self.key(number), locks: number % 3 == 0 ? .one : .none)
    }
    guard pass == .collection else { return }
    for number in stride(from: 1, to: Self.count, by: 3) { try store.remove(Self.key(number)) }
  }

  private func run(_ pass: Pass, _ store: BlobStore) throws {
    switch pass {
    case .collection: _ = try store.collect()
    case .wipe: try store.removeAll(.unlocked)
    case .removalOfPrefix: try store.remove(prefix: "gone")
    case .packing: _ = try store.packRecords()
    case .unpacking: _ = try store.unpackRecords()
    case .growth:
      for number in 0..<200 { try store.store(Data([1]), for: BlobKey("new \(number)")) }
    case .rebuild: _ = try store.load("none")
    }
  }

  private func expectRecords(after pass: Pass, isDone: Bool, _ event: String) throws {
    let store = try store()
    for number in 0..<Self.count {
      let found = try store.load(Self.key(number), touching: false)
      let (mayBeThere, mayBeGone) =
        switch (pass, number % 3) {
        case (.collection, 1): (false, true)
        case (.wipe, 1), (.wipe, 2), (.removalOfPrefix, 1): (!isDone, true)
        default: (true, false)
        }
      #expect(found != nil ? mayBeThere : mayBeGone, "\(event): \(Self.key(number))")
      if let found {
        #expect(found.payload == Self.payload(number), "\(event): \(Self.key(number))")
        #expect(found.header.refCount == (number % 3 == 0 ? 1 : 0), "\(event): \(Self.key(number))")
      }
    }
    #expect(try PackAudit(of: cache.root).flaws == [], "\(event)")
  }

  @Test(.timeLimit(.minutes(30)), arguments: Pass.allCases, [Errno.ioError, .noSpace])
  func everyFailedCallIsHarmless(pass: Pass, errno: Errno) throws {
    let seed = SeededGenerator.announcedSeed(for: "PackedPassFaultTests")
    var generator = SeededGenerator(seed: seed)
    let calls = Array(1...(try Self(pass).callCount(of: pass)))
    for call in FaultTests.isLong ? calls : Array(calls.shuffled(using: &generator).prefix(Self.shortCount)) {
      let run = try Self(pass)
      let event = "\(pass), call \(call), \(errno), seed \(seed)"
      let plan = FaultPlan()
      let store = try run.store(files: plan.files())
      let persistence: FaultPlan.Persistence = Bool.random(using: &generator) ? .once : .fromThenOn
      plan.arm(FaultPlan.Fault(errno, call: call, of: Self.kinds, persistence))
      // Other tests check the reported errors; this test checks the remaining records.
      let isDone = (try? run.run(pass, store)) != nil && plan.failed.isEmpty
      let detail = "\(event), \(plan.failed.first.map { "\($0)" } ?? "none")"
      plan.disarm()
      try run.expectRecords(after: pass, isDone: isDone, detail)
      #expect(throws: Never.self, "\(event)") { try run.run(pass, store) }
      try run.expectRecords(after: pass, isDone: true, detail)
      try NextBoot.begin(in: run.cache.root.string)
      try run.expectRecords(after: pass, isDone: true, detail)
    }
  }

  /// Creates a directory that is prepared for a pass.
  private init(_ pass: Pass) throws {
    try self.init()
    try fill(for: pass)
    if pass == .rebuild { try NextBoot.begin(in: cache.root.string) }
  }

  private func callCount(of pass: Pass) throws -> Int {
    let plan = FaultPlan()
    try run(pass, store(files: plan.files()))
    return plan.calls.count { Self.kinds.contains($0.kind) }
  }
}
