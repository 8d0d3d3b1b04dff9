import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import TestSupport
import Testing

/// A29: changes that are made only if the current record permits it.
@Suite struct JudgedChangeTests {
  private let cache: Cache
  private let trace = CallTrace()

  init() throws { cache = try Cache() }

  private enum Way: CaseIterable {
    case store, writer, remove
  }

  private func change(_ way: Way, _ store: BlobStore, if judge: @escaping StoreCondition.Judge) throws -> Bool {
    let condition = StoreCondition(onRecord: judge)
    switch way {
    case .store:
      return try store.storeWithReceipt(payload(9).bytes, nil, for: "key", ttl: nil, locks: .none, if: condition) != nil
    case .writer:
      var writer = try store.openWriter(for: "key")
      try writer.append(payload(9))
      return try writer.commit(replacingNothing: false, if: condition) != nil
    case .remove: return try store.remove("key", if: condition) != nil
    }
  }

  @Test(arguments: Way.allCases, [true, false]) private func theLiveRecordIsJudged(way: Way, answer: Bool) throws {
    let store = try cache.store()
    try store.store(payload(3), for: "key", ttl: .seconds(100))
    let judged = Lock<[RecordHeader?]>([])
    #expect(
      try change(way, store) { header in
        judged.withLock { $0.append(header) }
        return answer
      } == answer)
    #expect(judged.withLock { $0.map { $0?.payloadSize } } == [3])
    let after = try store.load("key")?.payload
    #expect(after == (answer ? way == .remove ? nil : payload(9) : payload(3)))
    #expect(try !cache.files().contains { $0.contains(".tmp-") })
  }

  @Test(arguments: [Way.store, .writer]) private func whatIsAbsentIsJudgedToo(way: Way) throws {
    let store = try cache.store()
    #expect(try !change(way, store) { $0 != nil })
    #expect(try store.load("key") == nil)
    #expect(try change(way, store) { $0 == nil })
    #expect(try store.load("key")?.payload == payload(9))
    #expect(try !change(way, store) { $0 == nil })
  }

  /// An expired record is treated as absent, although a removal finds its file.
  @Test(arguments: Way.allCases) private func whatHasExpiredIsNothing(way: Way) throws {
    let store = try cache.store()
    try store.store(payload(3), for: "key", ttl: .seconds(100))
    cache.clock.advance(by: 101)
    #expect(try !change(way, store) { $0 != nil })
    #expect(try change(way, store) { $0 == nil })
  }

  @Test func aRemovalOfNothingIsNotJudged() throws {
    let store = try cache.store()
    #expect(try store.remove("key", if: StoreCondition { _ in false }) == .notFound)
  }

  /// Another store of the directory changes the key first, after this one has written its record.
  @Test(arguments: [Way.store, .writer]) private func theMomentOfTheChangeCounts(way: Way) throws {
    let (store, other) = (try cache.store(files: trace.files), try cache.store())
    try store.store(payload(1), for: "other")
    let trace = trace
    trace.onCall { call, _ in
      guard call == .write else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try other.store(payload(3), for: "key") }
      return nil
    }
    #expect(try !change(way, store) { $0 == nil })
    #expect(try store.load("key")?.payload == payload(3))
  }
}
