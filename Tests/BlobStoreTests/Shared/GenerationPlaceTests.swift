import BlobRecord
import Foundation
import Posix
import TestSupport
import Testing

@testable import BlobStore

/// A memory hit is validated without a lock and without a system call.
@Suite struct GenerationPlaceTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// A store with one record, and the state that a memory tier keeps for it.
  private struct Kept {
    let store: BlobStore
    let place: GenerationPlace
    let digest: UInt64
    let generation: UInt64
    /// The number of counted answers, including those that came too late.
    let counted = CallCount()

    init(_ store: BlobStore) throws {
      self.store = store
      try store.store(payload(5), for: "key", ttl: .seconds(100))
      // Opens the control file and, if it exists, the file of uses.
      _ = try store.load("key")
      digest = try store.digest(of: "key", for: "load")
      generation = try #require(try store.generation(ofDigest: digest))
      place = store.generationPlace(after: nil)
    }

    /// Returns whether a memory hit is valid while the root is not due for a check.
    func answers(isUse: Bool = true) throws -> Bool {
      let hit = MemoryHit(byteCount: 5, isUse: isUse, at: store.configuration.now())
      for _ in 0..<100 {
        _ = try store.core.root.opened()
        let answer = place.answersAtOnce(hit, ofDigest: digest, in: generation)
        if answer { counted.add(1) }
        if store.core.root.wasCheckedLately { return answer }
      }
      throw CancellationError()
    }
  }

  @Test func itAnswersWhileNothingChangesAndCounts() throws {
    let kept = try Kept(tracedStore())
    #expect(kept.place.isKnown)
    _ = trace.take()
    for isUse in [true, false] { #expect(try kept.answers(isUse: isUse)) }
    #expect(trace.take().allSatisfy { $0.call != .openBeneath && $0.call != .read })
    #expect(try kept.store.traffic().memoryHits == Int64(kept.counted.value))
    #expect(kept.store.generationPlace(after: kept.place) === kept.place)
  }

  @Test func aChangeEndsIt() throws {
    let kept = try Kept(cache.store())
    try cache.store().store(payload(6), for: "key")
    #expect(try !kept.answers())
    #expect(try kept.store.traffic().memoryHits == 0)
  }

  /// When the root is due for a check, the check comes first.
  @Test func aRootThatIsDueForALookEndsIt() throws {
    let kept = try Kept(cache.store())
    Thread.sleep(forTimeInterval: 1)
    let hit = MemoryHit(byteCount: 5, isUse: true, at: cache.clock.now)
    #expect(!kept.place.answersAtOnce(hit, ofDigest: kept.digest, in: kept.generation))
    #expect(try kept.answers())
  }

  @Test func aControlFileThatIsForgottenEndsIt() throws {
    let kept = try Kept(cache.store())
    let open = try #require(try kept.store.core.root.opened())
    open.forget(try #require(open.openedControlFile))
    #expect(try !kept.answers())
    let next = kept.store.generationPlace(after: kept.place)
    #expect(next !== kept.place && !next.isKnown)
    #expect(!next.answersAtOnce(MemoryHit(byteCount: 5, isUse: true, at: cache.clock.now), ofDigest: 1, in: 2))
  }

  /// A control file that is opened after its root was replaced is not in force either.
  @Test func aRootThatIsReplacedEndsIt() throws {
    let kept = try Kept(cache.store())
    let other = try cache.store()
    let open = try #require(try other.core.root.opened())
    try FileManager.default.moveItem(atPath: cache.path(""), toPath: cache.outside.path.string + "/elsewhere")
    #expect(try kept.store.core.root.forgetIfReplacedNow())
    #expect(try other.core.root.forgetIfReplacedNow())
    let hit = MemoryHit(byteCount: 5, isUse: true, at: cache.clock.now)
    #expect(!kept.place.answersAtOnce(hit, ofDigest: kept.digest, in: kept.generation))
    let control = try #require(try open.controlFile(other.configuration.logger))
    #expect(!control.isInForce)
  }

  /// C30: a new file of uses is opened first, which needs system calls.
  @Test func aNewFileOfUsesIsOpenedFirst() throws {
    let kept = try Kept(cache.store { $0.limits.size = 1 << 30 })
    #expect(try kept.answers())
    let control = try #require(kept.place.control)
    let open = try #require(try kept.store.core.root.opened())
    let uses = kept.store.core.uses.withSketch(of: control, in: open) { $0.uses(of: kept.digest).count }
    // The load was counted, too.
    #expect(uses == 1 + kept.counted.value)
    control.setWord(7, at: ControlLayout.usesNumberOffset)
    #expect(try !kept.answers())
    #expect(try kept.answers(isUse: false))
    #expect(try kept.store.traffic().memoryHits == Int64(kept.counted.value))
  }

  /// The store validates a hit that needs a check of the root first, and counts it if the generation matches.
  @Test func theStoreAnswersWhereTheRootIsDue() throws {
    let kept = try Kept(cache.store())
    let hit = MemoryHit(byteCount: 5, isUse: true, at: cache.clock.now)
    #expect(try kept.store.answers(hit, ofDigest: kept.digest) { _ in false } == false)
    #expect(try kept.store.traffic().memoryHits == 0)
    #expect(try kept.store.answers(hit, ofDigest: kept.digest) { $0 == kept.generation } == true)
    #expect(try kept.store.traffic().memoryHits == 1)
    #expect(try kept.store.answers(nil, ofDigest: kept.digest) { $0 == kept.generation } == true)
    #expect(try kept.store.traffic().memoryHits == 1)
  }
}
