import BlobRecord
import BlobStore
import Foundation
import Locks
import Logging
import TestSupport
import Testing

/// Spec/Semantics.md, E.
@Suite struct ExpiryTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// E1, E2.
  @Test(
    arguments: [(nil, 600), (.seconds(60), 60), (.seconds(1), 1), (.seconds(10_000_000), 10_000_000)]
      as [(Duration?, Int64)])
  func recordIsLiveInTheLastSecondAndExpiredAfterIt(ttl: Duration?, lifetime: Int64) throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key", ttl: ttl)
    cache.clock.advance(by: lifetime)
    #expect(try store.load("key", touching: false) != nil)
    #expect(try store.records().map(\.state) == [.live])
    cache.clock.advance(by: 1)
    #expect(try store.load("key") == nil)
    #expect(try store.header(for: "key") == nil)
    #expect(try store.contains("key") == false)
    #expect(try store.records().map(\.state) == [.expired])
  }

  /// E2.
  @Test func ttlZeroLastsAsLongAsTheStoreSays() throws {
    let long = try cache.store { $0.expiry.defaultTimeToLive = .seconds(1000) }
    let short = try cache.store { $0.expiry.defaultTimeToLive = .seconds(100) }
    try long.store(payload(10), for: "key")
    cache.clock.advance(by: 101)
    #expect(try short.contains("key") == false)
    #expect(try long.contains("key"))
  }

  /// E3.
  @Test func updateTimeInTheFutureIsNotExpired() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key", ttl: .seconds(1))
    cache.clock.advance(by: -1_000_000)
    #expect(try store.contains("key"))
    #expect(try store.collect().expired == 0)
  }

  /// E4.
  @Test func lockedRecordOutlivesItsTime() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key", ttl: .seconds(1), locks: .one)
    cache.clock.advance(by: 1_000_000)
    #expect(try store.load("key")?.payload == payload(10))
    #expect(try store.unlock("key") == .done)
    #expect(try store.load("key") == nil)
  }

  /// E5: the extremes of every field used in time arithmetic.
  @Test(arguments: [0, 1, UInt64(Int64.max) - 1, UInt64(Int64.max), UInt64(Int64.max) + 1, .max] as [UInt64])
  func noTimeOverflows(updateTime: UInt64) throws {
    for ttl in [0, 1, UInt64(Int64.max), .max] {
      for now in [Int64.min, -1, 0, 1, 1_700_000_000, .max - 1, .max] {
        let cache = try Cache(clock: ManualClock(now))
        let store = try cache.store()
        let header = RecordHeader(ttl: ttl, updateTime: updateTime, payloadSize: 0)
        try cache.write(record(header, [7]), to: "k")
        let lifetime = ttl == 0 ? 600 : Int64(clamping: ttl)
        let (end, overflow) = Int64(clamping: updateTime).addingReportingOverflow(lifetime)
        let isLive = overflow || now <= end
        #expect(try store.contains("k") == isLive)
        #expect(try store.load("k", touching: false)?.payload == (isLive ? Data([7]) : nil))
        #expect(try store.collect().expired == (isLive ? 0 : 1))
        try cache.write(record(header, [7]), to: "k")
        #expect(try store.touch("k") == (isLive ? .done : .notFound))
        #expect(try store.load("k")?.payload == (isLive ? Data([7]) : nil))
        #expect(try store.lock("k") == (isLive ? .done : .notFound))
        #expect(try store.usage().records == 1)
        #expect(try store.collect().expired == (isLive ? 0 : 1))
      }
    }
  }

  /// E6.
  @Test(arguments: [(-5, 60), (0, 60), (59, 60), (60, 60), (61, 61)] as [(Int64, Int64)])
  func shortDefaultExpirationIsRaisedWithAWarning(asked: Int64, effective: Int64) throws {
    let log = RecordedLog()
    let store = try cache.store {
      $0.expiry.defaultTimeToLive = .seconds(asked)
      $0.logger = log.logger
    }
    #expect(log.warnings.count == (asked < 60 ? 1 : 0))
    try store.store(payload(1), for: "key")
    cache.clock.advance(by: effective)
    #expect(try store.contains("key"))
    cache.clock.advance(by: 1)
    #expect(try store.contains("key") == false)
  }

  /// E7.
  @Test(
    arguments: [
      (nil, 0), (.seconds(1), 1), (.milliseconds(1), 1), (.milliseconds(1001), 2), (.nanoseconds(1_999_999_999), 2),
      (Duration(secondsComponent: 5, attosecondsComponent: 1), 6), (.seconds(Int64.max), UInt64(Int64.max)),
      (.seconds(Int64.max) + .milliseconds(1), UInt64(Int64.max)), (.seconds(Int64.max) * 9, UInt64(Int64.max)),
    ] as [(Duration?, UInt64)])
  func ttlIsRoundedUpAndHeld(ttl: Duration?, stored: UInt64) throws {
    let store = try cache.store()
    try store.store(payload(1), for: "key", ttl: ttl)
    #expect(try store.header(for: "key")?.ttl == stored)
  }

  /// E7.
  @Test func hugeDefaultExpirationIsHeld() throws {
    let store = try cache.store { $0.expiry.defaultTimeToLive = .seconds(Int64.max) * 9 }
    try store.store(payload(1), for: "key")
    cache.clock.now = UnixTime(seconds: .max)
    #expect(try store.contains("key"))
  }

  /// E7.
  @Test(arguments: [Duration.zero, .nanoseconds(-1), .seconds(-1), .seconds(Int64.min) * 9])
  func ttlOfZeroOrLessIsRefused(ttl: Duration) throws {
    let store = try cache.store()
    try store.store(payload(1), for: "key")
    expect(.invalidTimeToLive) { try store.store(payload(2), for: "key", ttl: ttl) }
    #expect(try store.load("key")?.payload == payload(1))
  }
}

/// Records log messages.
final class RecordedLog: Sendable {
  private let messages = Lock<[String]>([])

  var warnings: [String] { messages.withLock { $0 } }
  var logger: Logger { Logger(label: "test") { _ in Handler(log: self) } }

  private struct Handler: LogHandler {
    let log: RecordedLog
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.warning

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
      get { metadata[key] }
      set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { log.messages.withLock { $0.append("\(event.message)") } }
  }
}
