import BlobRecord
import Foundation
import Locks
import Posix
import TestSupport
import Testing

@testable import BlobStore

/// Invariant I5: the counters never report less than the directory contains, at any step of a change, even if it
/// fails.
///
/// A limit is enforced by the counters, so the directory would outgrow its limit if a count were too low.
@Suite struct CountedAheadTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  enum Change: CaseIterable {
    case store, storeLarge, enlarge, replace, shrink, batch, stream, visibleStream, extend, lock, remove, unpack

    func make(in store: BlobStore) throws {
      switch self {
      case .store: try store.store(payload(300, 2), for: "new")
      case .storeLarge: try store.store(payload(90_000, 2), for: "new")
      case .enlarge: try store.store(payload(90_000, 2), for: "key")
      case .replace: try store.store(payload(3000, 2), for: "key", locks: .one)
      case .shrink: try store.store(payload(20, 2), for: "key", ttl: .seconds(900))
      case .batch:
        let blobs: [(key: BlobKey, payload: Data)] = [("a", payload(50)), ("b", payload(60))]
        for result in store.store(blobs) { _ = try result.result.get() }
      case .stream: try write(to: store, .afterCommit)
      case .visibleStream: try write(to: store, .whileWriting)
      case .extend: try store.setExtendedData(Data("more".utf8), for: "key")
      case .lock: try store.lock("key")
      case .remove: try store.remove("key")
      case .unpack: _ = try store.withExclusiveAccess(to: "key") { _ in }
      }
    }

    private func write(to store: BlobStore, _ visibility: BlobStore.Visibility) throws {
      var writer = try store.openWriter(for: "new", visibility: visibility)
      try writer.append(payload(20_000))
      try writer.commit()
    }
  }

  private func configure(_ packing: BlobStore.Packing) -> (inout BlobStore.Configuration) -> Void {
    {
      $0.packing = packing
      $0.durability = .full
    }
  }

  /// Returns a description of the missing counts, or `nil` if the counters are sufficient.
  private static func shortfall(of store: BlobStore) throws -> String? {
    let (usage, estimate) = (try store.usage(), try #require(try store.usageEstimate()))
    let isEnough =
      estimate.bytes >= usage.bytes && estimate.records >= usage.records
      && estimate.lockedBytes >= usage.lockedBytes && estimate.lockedRecords >= usage.lockedRecords
    return isEnough ? nil : "\(estimate) is counted, and \(usage) is there"
  }

  /// Without packing, no record can be unpacked.
  private static var changes: [(Change, BlobStore.Packing)] {
    Change.allCases.flatMap { change in
      [(change, .upTo(8192))] + (change == .unpack ? [] : [(change, BlobStore.Packing.off)])
    }
  }

  @Test(arguments: changes)
  func noStepOfAChangeIsUncounted(change: Change, packing: BlobStore.Packing) throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files, configure(packing))
    try store.store(payload(100), for: "key")
    try store.collect()
    let (observer, calls) = (try cache.store(configure(packing)), CallCount())
    let findings = Lock<[String]>([])
    trace.onCall(besides: [.takeStripe, .freeStripe]) { call, _ in
      calls.add(1)
      #expect(throws: Never.self) {
        guard let found = try Self.shortfall(of: observer) else { return }
        findings.withLock { $0.append("before call \(calls.value), \(call): \(found)") }
      }
      return nil
    }
    try change.make(in: store)
    trace.onCall(nil)
    #expect(calls.value > 0)
    #expect(findings.withLock { $0 } == [])
    #expect(try Self.shortfall(of: observer) == nil)
  }

  /// Each call fails, once or from then on. The count of a failed store is reverted, but an existing record stays
  /// counted, and so does one that a change could not finish.
  @Test(arguments: changes, [true, false])
  func noFailureLeavesARecordUncounted(of change: (Change, BlobStore.Packing), isOnce: Bool) throws {
    let (change, packing) = change
    // An incomplete record that cannot be removed counts only its header, until a collection removes it.
    guard isOnce || change != .visibleStream else { return }
    var (failing, wasReached) = (0, true)
    while wasReached {
      let (cache, trace) = (try Cache(), CallTrace())
      let store = try cache.store(files: trace.files, configure(packing))
      try store.store(payload(100), for: "key")
      try store.collect()
      let calls = CallCount()
      trace.onCall(besides: [.takeStripe, .freeStripe]) { [failing] _, _ in
        defer { calls.add(1) }
        return calls.value == failing || !isOnce && calls.value > failing ? .fail(.ioError) : nil
      }
      // The result of the change is irrelevant here.
      _ = try? change.make(in: store)
      trace.onCall(nil)
      wasReached = calls.value > failing
      #expect(try Self.shortfall(of: cache.store(configure(packing))) == nil, "call \(failing) failed")
      failing += 1
    }
    #expect(failing > 1)
  }

  /// Over a network, a rename may be reported as failed although it was made. The file counts then, also if the change
  /// is finished only by the next one.
  @Test(arguments: [true, false]) func aFileThatHasItsNameDespiteAnErrorIsCounted(isFinished: Bool) throws {
    let (trace, renames) = (CallTrace(), CallCount())
    let store = try cache.store(files: trace.files, configure(.upTo(8192)))
    try store.store(payload(100), for: "key")
    try store.collect()
    let other = try Cache()
    try other.store().store(payload(90_000, 2), for: "key")
    let file = try #require(try other.files().first)
    let (from, to) = (other.root.appending(file).string, cache.root.appending(file).string)
    trace.onCall { call, _ in
      guard call == .rename else { return !isFinished && renames.value > 0 && call == .status ? .fail(.ioError) : nil }
      renames.add(1)
      #expect(throws: Never.self) { try FileManager.default.copyItem(atPath: from, toPath: to) }
      return .fail(.ioError)
    }
    expect(.fileSystem) { try Change.enlarge.make(in: store) }
    trace.onCall(nil)
    let reader = try cache.store(configure(.upTo(8192)))
    try reader.touch("key")
    #expect(try Self.shortfall(of: reader) == nil)
    #expect(try reader.load("key")?.payload == payload(90_000, 2))
  }

  /// The index is rebuilt after a record is written. It contains the record, which therefore stays current although its
  /// sync fails.
  @Test(arguments: [Change.replace, .batch, .extend])
  func aRecordThatARebuildHasFoundStaysCounted(change: Change) throws {
    let (trace, syncs) = (CallTrace(), CallCount())
    let store = try cache.store(files: trace.files, configure(.upTo(8192)))
    for key in ["key", "a", "b"] as [BlobKey] { try store.store(payload(10), for: key) }
    try store.collect()
    let other = try cache.store(configure(.upTo(8192)))
    let control = try #require(
      try store.core.controlFiles.controlFile(of: store.core.root.openedOrMade(), makesIt: false))
    trace.onCall { call, path in
      guard call == .sync, path.string.hasSuffix("p-0") else { return nil }
      syncs.add(1)
      control.setPackIndexNumber(0)
      #expect(throws: Never.self) { try LockOrder.outside { _ = try other.load("key") } }
      return .fail(.ioError)
    }
    // Each record is stored separately after the batch has failed, with the same error.
    #expect(throws: BlobStoreError.self) { try change.make(in: store) }
    trace.onCall(nil)
    #expect(syncs.value > 0)
    #expect(try Self.shortfall(of: other) == nil)
  }

  /// A collection that runs after a record is counted, and before it is published, does not reset the count.
  @Test(arguments: [BlobStore.Packing.off, .upTo(8192)])
  func aCollectionLeavesTheCountOfAStoreUnderWay(packing: BlobStore.Packing) throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files, configure(packing))
    try store.store(payload(100), for: "key")
    try store.collect()
    let (other, publications) = (try cache.store(configure(packing)), CallCount())
    trace.onCall { call, _ in
      guard call == (packing == .off ? SystemCall.publication : .exchangeEntry), publications.value == 0 else {
        return nil
      }
      publications.add(1)
      // The key is held, so the collection waits until its timeout.
      #expect(throws: Never.self) { _ = try LockOrder.outside { try other.collect() } }
      return nil
    }
    try store.store(payload(3000), for: "new")
    trace.onCall(nil)
    #expect(publications.value == 1)
    #expect(try Self.shortfall(of: other) == nil)
  }
}
