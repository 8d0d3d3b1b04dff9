import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Y17: streams whose writers have died, and how they are distinguished from active ones.
@Suite struct AbandonedStreamTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// Leaves a record like that of a killed writer.
  private func abandon(in store: BlobStore, locks: UInt32 = 0) throws {
    try store.store(payload(100), for: "key", ttl: .never)
    try cache.changeHeader("ke/key") { header in
      header.flags.insert(.streamIncomplete)
      header.ttl = .max
      header.refCount = locks
      header.payloadSize = .max
    }
  }

  private func open(_ store: BlobStore) throws -> BlobWriter {
    try store.openWriter(for: "key", ttl: .seconds(77), visibility: .whileWriting)
  }

  /// Y17, G: an abandoned stream is damage to which the damage policies apply.
  @Test(arguments: BlobStore.DamagePolicy.allCases) func anAbandonedStreamIsDamage(
    policy: BlobStore.DamagePolicy
  ) throws {
    let store = try cache.store { $0.damagePolicy = policy }
    try abandon(in: store, locks: 1)
    #expect(try Array(store.records()).map(\.damage) == [.abandonedStream])
    #expect(try store.inspect(FilePath(cache.path("ke/key"))).damage == .abandonedStream)
    #expect(try store.verify().damagedFiles == 1)
    #expect(try store.usage().damagedFiles == 1)
    let error = expect(.damaged) { _ = try store.load("key") }
    #expect(error?.recordError == .abandonedStream)
    #expect(try cache.files() == (policy == .report ? ["ke/key"] : policy == .remove ? [] : [".quarantine/key"]))
    try store.store(payload(3), for: "key")
    #expect(try store.load("key")?.payload == payload(3))
    try store.checkInvariants()
  }

  /// Y17, C3: an abandoned stream is collected at any age, like temporary files.
  @Test(arguments: [true, false]) func anAbandonedStreamIsCollected(isDryRun: Bool) throws {
    let store = try cache.store()
    try abandon(in: store)
    var options = BlobStore.CollectionOptions()
    options.looksAtEverything = true
    options.dryRun = isDryRun
    #expect(try store.collect(options).damaged == 1)
    #expect(try cache.files().isEmpty == !isDryRun)
  }

  /// Y17: a subdirectory with a stream is not marked, because the writer may die later.
  @Test func noMarkHidesAStream() throws {
    let store = try cache.store()
    var writer = try open(store)
    try writer.append(payload(10))
    try cache.setModified("ke", 0)
    #expect(try store.collect().isWithoutRemovals)
    #expect(try store.collect().isWithoutRemovals)
    let bytes = try cache.bytes("ke/key")
    let modified = try cache.modified("ke")
    writer.discard()
    try cache.write(bytes, to: "ke/key")
    try check(utimensat(AT_FDCWD, cache.path("ke"), [modified, modified], 0), "utimensat")
    #expect(try store.collect().damaged == 1)
  }

  /// Y17: a writer that commits between the reads of its header and of its lock is not treated as dead.
  @Test func aWriterThatEndsDuringALookHasNotDied() throws {
    let store = try tracedStore()
    let other = try cache.store()
    let bytes = payload(10)
    try other.store(bytes, for: "key", ttl: .never)
    let whole = try cache.bytes("ke/key")
    try cache.changeHeader("ke/key") { $0.flags.insert(.streamIncomplete) }
    let cache = cache
    before(.lock, at: "ke/key") { try cache.write(whole, to: "ke/key") }
    #expect(try Array(store.records()).map(\.damage) == [.recordIsStreamAndBusy])
    #expect(try store.load("key")?.payload == bytes)
  }

  /// Y17: a stream that cannot be removed when it is discarded is collected later.
  @Test(arguments: [SystemCall.unlink, .takeStripe]) func whatCannotBeWithdrawnIsCollected(call: SystemCall) throws {
    let store = try cache.store(files: trace.files)
    var writer = try open(store)
    try writer.append(payload(10))
    trace.onCall { made, _ in made == call ? .fail(.ioError) : nil }
    writer.discard()
    trace.onCall(nil)
    #expect(try cache.files() == ["ke/key"])
    let error = expect(.damaged) { _ = try store.load("key") }
    #expect(error?.recordError == .abandonedStream)
    #expect(try store.collect().damaged == 1)
    #expect(try cache.files().isEmpty)
  }

  /// If the lock cannot be examined, the state of the record is unknown.
  @Test func aFailingLookForTheLockIsAnError() throws {
    let store = try cache.store(files: trace.files)
    try abandon(in: store)
    for attempt in 1...2 {
      trace.onCall { made, path in
        made == .lock && path.string.hasSuffix("ke/key") && trace.count(.lock) >= attempt ? .fail(.noLocks) : nil
      }
      _ = trace.take()
      let error = expect(.fileSystem) { _ = try store.load("key") }
      #expect(error?.errno == .noLocks)
      trace.onCall(nil)
    }
  }
}

extension BlobStore.CollectionReport {
  /// A Boolean value that indicates whether the collection removed at most empty subdirectories.
  var isWithoutRemovals: Bool { expired == 0 && evicted == 0 && damaged == 0 && temporary == 0 }
}
