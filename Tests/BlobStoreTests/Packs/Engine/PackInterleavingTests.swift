import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Concurrent changes between two steps of an operation on a packed record.
@Suite struct PackInterleavingTests: BetweenCalls {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private static func packing(_ configuration: inout BlobStore.Configuration) { configuration.packing = .upTo(1000) }

  /// Frees the first chunk as a collection does if it has no live record.
  @discardableResult private static func freeFirstChunk(of store: BlobStore) throws -> ChunkEntry {
    let chunk = try #require(try Records(store.core).packs()?.files.pack(0)).entry(ofChunk: 0)
    #expect(chunk.seal(owner: chunk.state.owner))
    #expect(chunk.beginCollection())
    #expect(chunk.free())
    return chunk
  }

  private func audit() throws -> PackAudit { try PackAudit(of: cache.root) }

  // MARK: A load

  enum Replacement: CaseIterable { case none, elsewhere }

  /// A chunk is freed and refilled between the index lookup and the read.
  @Test(arguments: Replacement.allCases) func aLoadMeetsAChunkOfAnotherLife(replacement: Replacement) throws {
    let store = try tracedStore(Self.packing)
    try store.store(payload(100, 1), for: "key")
    let cache = cache
    before(.read, at: "/.packs/p-0") {
      // Another process removes the record, or moves it to a durable chunk. A third process takes the chunk.
      let other = try cache.store(Self.packing)
      if replacement == .none {
        try other.remove("key")
      } else {
        try other.store(payload(100, 2), for: "key", locks: .one)
      }
      let chunk = try Self.freeFirstChunk(of: other)
      // The new record has the same place and size.
      try cache.store(Self.packing).store(payload(100, 3), for: "yek")
      #expect(chunk.state.kind == .open)
    }
    #expect(try store.load("key")?.payload == (replacement == .none ? nil : payload(100, 2)))
    #expect(try store.load("yek")?.payload == payload(100, 3))
    #expect(try audit().flaws == [])
  }

  /// A record is removed and stored at another place, or as a file, immediately before it is read.
  @Test(arguments: [100, 2000]) func aLoadMeetsAReplacement(byteCount: Int) throws {
    let store = try tracedStore(Self.packing)
    try store.store(payload(100, 1), for: "key")
    let cache = cache
    before(.read, at: "/.packs/p-0") { try cache.store(Self.packing).store(payload(byteCount, 2), for: "key") }
    #expect(try store.load("key")?.payload == payload(byteCount, 2))
  }

  /// The record moves after the lookup of its entry, and a store writes the next record to its former place. Loads
  /// must not find that record until it is published.
  @Test func aLoadMeetsARecordThatIsNotPublished() throws {
    try cache.store(Self.packing).store(payload(100, 1), for: "key")
    let (isWritten, isLoaded, isStored) = (Gate(), Gate(), Gate())
    let (cache, steps, announcements) = (cache, CallTrace(), CallCount())
    // The reader has not opened the pack yet.
    let reader = try tracedStore(Self.packing)
    before(.openBeneath, at: "/.packs/p-0") {
      let other = try cache.store(Self.packing)
      // The lock moves the record to a durable chunk.
      try other.lock("key")
      try other.unlock("key")
      try Self.freeFirstChunk(of: other)
      steps.onCall { call, _ in
        guard call == .announce else { return nil }
        announcements.add(1)
        // The first announcement precedes the write of the record. After the second, the generation has changed, too.
        guard announcements.value == 2 else { return nil }
        isWritten.open()
        #expect(isLoaded.wait())
        return nil
      }
      let writer = try cache.store(files: steps.files, Self.packing)
      Thread.detachNewThread {
        #expect(throws: Never.self) { try writer.store(payload(100, 2), for: "key") }
        isStored.open()
      }
      #expect(isWritten.wait())
      let written = try PackAudit(of: cache.root).records.filter { $0.address.chunk == 0 }
      #expect(written.map(\.payload) == [payload(100, 2)])
    }
    #expect(try reader.load("key")?.payload == payload(100, 1))
    isLoaded.open()
    #expect(isStored.wait())
    #expect(try reader.load("key")?.payload == payload(100, 2))
    #expect(try audit().flaws == [])
  }

  /// A lookup whose closures run after its steps.
  private struct ObservedLookup: RecordLookup {
    let base: WholeLookup
    let afterIndex, afterFile: () -> Void
    var path: RecordPath { base.path }

    func packed(_ name: RecordPath, _ packs: PackRecords, _ mode: ReadMode) throws -> Reading<RecordContent>? {
      defer { afterIndex() }
      return try base.packed(name, packs, mode)
    }

    func file(
      _ name: RecordPath, _ files: FileRecords, in open: OpenRoot, _ mode: ReadMode
    ) throws -> Reading<RecordContent> {
      defer { afterFile() }
      return try base.file(name, files, in: open, mode)
    }
  }

  /// A record is stored in a pack after the index lookup, and moves to a file between the two lookups of the file and
  /// of the index. The generation is odd during the second change, and the same before and after the miss.
  @Test func aMissIsNotTakenFromTheMiddleOfAMove() throws {
    let reader = try cache.store(Self.packing)
    try reader.store(payload(50), for: "another")
    let (isBegun, mayPublish, isPublished, mayEnd, isStored) = (Gate(), Gate(), Gate(), Gate(), Gate())
    let steps = CallTrace()
    steps.onCall { call, _ in
      if call == .announce {
        isBegun.open()
        #expect(mayPublish.wait())
      } else if call == .markDead {
        isPublished.open()
        #expect(mayEnd.wait())
      }
      return nil
    }
    let (cache, looks) = (cache, CallCount())
    let base = try WholeLookup(key: "key", path: reader.core.path(for: "key"), now: reader.core.configuration.now())
    let lookup = ObservedLookup(base: base) {
      looks.add(1)
      guard looks.value == 1 else { return }
      #expect(throws: Never.self) { try cache.store(Self.packing).store(payload(100, 1), for: "key") }
      Thread.detachNewThread {
        #expect(throws: Never.self) {
          try cache.store(files: steps.files, Self.packing).store(payload(9000, 2), for: "key")
        }
        isStored.open()
      }
      #expect(isBegun.wait())
    } afterFile: {
      mayPublish.open()
      #expect(isPublished.wait())
    }
    let open = try #require(try reader.core.root.opened())
    let reading = try Records(reader.core).read(open.placed(base.path), in: open, lookup, .first)
    mayEnd.open()
    #expect(isStored.wait())
    guard case .live(_, let content) = reading else {
      Issue.record("a load missed a record that was stored throughout")
      return
    }
    #expect(content.payload == payload(9000, 2))
  }

  /// A record moves from its file to a pack after the index lookup.
  @Test func aLoadMeetsAMove() throws {
    let store = try tracedStore(Self.packing)
    try store.store(payload(50), for: "another")
    try store.store(payload(2000, 1), for: "key")
    _ = try store.load("another")
    let cache = cache
    before(.openBeneath, at: "key") { try cache.store(Self.packing).store(payload(100, 2), for: "key") }
    #expect(try store.load("key")?.payload == payload(100, 2))
  }

  /// The file was removed, and the packs no longer contain the record: the generation shows the change.
  @Test func aLoadMeetsAMoveThereAndARemoval() throws {
    let other = try cache.store(Self.packing)
    try other.store(payload(50), for: "another")
    try other.store(payload(2000), for: "key")
    before(.openBeneath, at: "ke/key") {
      try other.store(payload(5), for: "key")
      try other.remove("key")
    }
    #expect(try tracedStore(Self.packing).load("key") == nil)
  }

  /// A record moves to a pack after the index lookup, so the missing file is not an answer.
  @Test(.enabled(if: SystemCall.hasCachedLookups), arguments: [false, true])
  func aLookThatNeverWaitsMeetsAMove(isOfHeader: Bool) throws {
    let store = try tracedStore(Self.packing)
    try store.store(payload(50), for: "another")
    try store.store(payload(2000, 1), for: "key")
    _ = (try store.load("another"), try store.load("key"))
    let (cache, hasMoved) = (cache, CallCount())
    before(.openCached, at: "key") {
      try cache.store(Self.packing).store(payload(100, 2), for: "key")
      hasMoved.add(1)
    }
    var receipt = LoadReceipt()
    let path = try store.path(of: "key", for: "load")
    if isOfHeader {
      if case .known = store.headerIfCached(for: "key") { Issue.record("the header of a file that is gone") }
    } else {
      if case .known = store.loadIfCached("key", at: path, touching: false, &receipt) {
        Issue.record("a file that is gone")
      }
    }
    #expect(hasMoved.value == 1)
  }

  /// A header that may have been overwritten during the read is not returned with a later time of use.
  @Test func aLoadReadsAgainWhatIsUsedMeanwhile() throws {
    let other = try cache.store(Self.packing)
    try other.store(payload(50), for: "key", locks: .one)
    cache.clock.advance(by: 100)
    let reads = CallCount()
    let (trace, clock) = (trace, cache.clock)
    let store = try tracedStore(Self.packing)
    // This opens the packs.
    _ = try store.header(for: "key")
    trace.onCall { call, path in
      guard call == .read, path.string.hasSuffix("p-0") else { return nil }
      reads.add(1)
      if reads.value == 1 { #expect(throws: Never.self) { try other.touch("key") } }
      return nil
    }
    #expect(try store.header(for: "key")?.lastUpdate == clock.now)
    #expect(reads.value == 2)
  }

  // MARK: A store

  /// Reserved room counts as in flight until its record is published.
  @Test(arguments: [SystemCall.write, .exchangeEntry]) func aStoreInFlightIsCounted(call: SystemCall) throws {
    let store = try tracedStore(Self.packing)
    try store.store(payload(10), for: "another")
    let chunk = try #require(try Records(store.core).packs()?.files.pack(0)).entry(ofChunk: 0)
    before(call, at: call == .write ? "/.packs/p-0" : "") { #expect(chunk.inFlight == 1) }
    try store.store(payload(100), for: "key")
    #expect(chunk.inFlight == 0)
  }

  /// Two threads of a process store records in the same chunk.
  @Test(arguments: [SystemCall.write, .announce, .exchangeEntry, .markDead]) func twoThreadsShareAChunk(
    call: SystemCall
  ) throws {
    let store = try tracedStore(Self.packing)
    try store.store(payload(100, 1), for: "key")
    before(call, at: call == .write ? "/.packs/p-0" : "") {
      let isDone = Gate()
      Thread.detachNewThread {
        #expect(throws: Never.self) { try store.store(payload(200, 2), for: "another") }
        isDone.open()
      }
      #expect(isDone.wait())
    }
    try store.store(payload(300, 3), for: "key")
    #expect(try store.load("key")?.payload == payload(300, 3))
    #expect(try store.load("another")?.payload == payload(200, 2))
    let audit = try audit()
    #expect(audit.flaws == [] && audit.announced.isEmpty)
    #expect(audit.records.count == 3 && audit.current.count == 2)
  }

  // MARK: Changes announced by dead processes

  /// Stores and removes a record, and leaves its stripe as a process does that is killed after marking the record.
  private func leaveAnnouncement(of key: BlobKey, with store: BlobStore) throws {
    try store.store(payload(100, 1), for: key)
    let path = try store.core.path(for: key)
    let open = try #require(try store.core.root.opened())
    let records = try #require(try Records(store.core).packs(of: open))
    let address = try #require(try records.find(path, by: RecordJudge())?.packAddress)
    try store.remove(key)
    records.control.setIntent(.old, of: ControlLayout.stripe(of: path.digest), to: StripeIntent(.record, at: address))
  }

  /// A collection skips a dead record without its stripe, so the chunk may be reused while the removal is finished.
  @Test func whatIsDeadIsNotMarkedAgain() throws {
    let store = try tracedStore(Self.packing)
    try leaveAnnouncement(of: "key", with: store)
    let cache = cache
    let reuse: @Sendable () throws -> Void = {
      let other = try cache.store(Self.packing)
      // This opens the packs.
      _ = try other.load("another")
      try Self.freeFirstChunk(of: other)
      try other.store(payload(100, 3), for: "yek")
    }
    before(.markDead, reuse)
    #expect(try store.touch("key") == .notFound)
    trace.onCall(nil)
    #expect(try audit().flaws == [] && audit().announced.isEmpty)
    if try store.load("yek") == nil { try reuse() }
    #expect(try store.load("yek")?.payload == payload(100, 3))
  }

  /// The chunk was reused, and contains an unpublished record of another stripe at this place.
  @Test func aRecordOfAnotherStripeIsLeftAlone() throws {
    let (store, other) = try (tracedStore(Self.packing), cache.store(Self.packing))
    try leaveAnnouncement(of: "key", with: other)
    try Self.freeFirstChunk(of: other)
    before(.exchangeEntry) {
      let outcome = try other.touch("key")
      #expect(outcome == .notFound)
    }
    try store.store(payload(100, 3), for: "yek")
    #expect(try store.load("yek")?.payload == payload(100, 3))
    let audit = try audit()
    #expect(audit.flaws == [] && audit.announced.isEmpty && audit.current["yek"]?.address.chunk == 0)
  }

  // MARK: An index that is rebuilt

  enum Change: CaseIterable { case storesNew, replaces, locks, locksInPlace, unlocks, removes, storesFile }

  /// Another process rebuilds the index before each step of a change.
  @Test(arguments: Change.allCases) func aChangeMeetsAnotherIndex(change: Change) throws {
    for step in 1...40 {
      let bench = try PackInterleavingTests()
      guard try bench.change(change, withAnotherIndexBefore: step) else {
        #expect(step > 3)
        return
      }
    }
    Issue.record("more steps than any change has")
  }

  /// - Returns: `false` if the change has fewer steps.
  private func change(_ change: Change, withAnotherIndexBefore step: Int) throws -> Bool {
    let store = try tracedStore(Self.packing)
    try store.store(payload(100, 1), for: "another")
    switch change {
    case .storesNew: break
    case .replaces, .locks, .removes, .storesFile: try store.store(payload(100, 1), for: "key")
    case .locksInPlace, .unlocks: try store.store(payload(100, 1), for: "key", locks: .one)
    }
    let (cache, trace) = (cache, trace)
    let count = CallCount()
    trace.onCall { call, path in
      guard call.isStep || path.string.contains("/.packs/") else { return nil }
      count.add(1)
      guard count.value == step else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) {
        try FileManager.default.removeItem(atPath: cache.path(".packs/index"))
        _ = try cache.store(Self.packing).load("another")
      }
      return nil
    }
    var locks: UInt32 = 0
    var expected: Data? = payload(100, 1)
    switch change {
    case .storesNew, .replaces:
      expected = payload(200, 2)
      try store.store(payload(200, 2), for: "key")
    case .storesFile:
      expected = payload(2000, 2)
      try store.store(payload(2000, 2), for: "key")
    case .locks, .locksInPlace:
      locks = change == .locks ? 1 : 2
      #expect(try store.lock("key") == .done)
    case .unlocks: #expect(try store.unlock("key") == .done)
    case .removes:
      expected = nil
      #expect(try store.remove("key") == .done)
    }
    trace.onCall(nil)
    let event: Comment = "\(change) with another index before step \(step)"
    for reader in [store, try cache.store()] {
      let blob = try reader.load("key", touching: false)
      #expect(blob?.payload == expected, event)
      #expect(blob?.header.refCount ?? 0 == locks, event)
      #expect(try reader.load("another", touching: false)?.payload == payload(100, 1), event)
    }
    let audit = try audit()
    #expect(audit.flaws == [] && audit.announced.isEmpty, event)
    return count.value >= step
  }
}

extension Records {
  /// Returns the open packs.
  fileprivate func packs() throws -> Packs? { try core.root.opened().flatMap { try packs(of: $0)?.packs } }
}
