internal import BlobRecord

/// A remote tier behind the directory, which several machines share: a remote engine and its settings.
///
/// A load that finds no blob in the directory asks the engine, and stores the answer in the directory. A store is sent
/// to the engine once the blob is stored in the directory. Locks, touches and collections affect only this machine.
/// Spec/Remote.md lists the guarantees.
///
/// The engine never blocks the cache: opening does not wait for it, a failure is a miss, and a circuit breaker skips an
/// engine that fails repeatedly.
public struct RemoteTier: Sendable {
  public let engine: any RemoteEngine
  /// The namespace of the records in the engine.
  public var namespace: RemoteNamespace
  public var mode = Mode.readWrite
  /// The time at which a store that is sent to the engine returns.
  public var writing = Writing.behind
  /// The maximum size of the stores that wait for the engine, in bytes.
  ///
  /// If it is exceeded, the oldest stores are dropped, and an event reports each of them.
  public var waitingByteLimit = 64 << 20
  /// The maximum number of concurrent stores and removals.
  public var maxConcurrentChanges = 8
  /// The sizes of payloads that are sent to the engine, in bytes.
  ///
  /// Small payloads may not be worth a request, and large ones may be refused. The sizes of a key's blobs should not
  /// cross the limits.
  public var payloadSizes: ClosedRange<Int64> = 0...(1 << 30)
  public var deadlines = Deadlines()
  /// The time for which the engine's answer that a key is absent is remembered.
  public var remembersAbsenceFor: Duration = .seconds(5)
  public var breaker = BreakerSettings()
  /// The key that seals records if others can write to the engine, or `nil` to store records without a seal.
  ///
  /// All machines need the same key. A record without this key's seal is a miss.
  public var sealKey: RemoteSealKey?
  /// The age from which on a load revalidates a blob in the directory, or `nil` to never revalidate.
  ///
  /// The age counts from the last confirmation by the engine. A load then requests the header of the engine's object,
  /// 64 bytes. If the header is another blob's, that blob is fetched. If the engine fails or has no object, the present
  /// blob is returned.
  public var revalidatesAfter: Duration?
  /// The leases by which only one machine produces a missing blob, or `nil` if each machine may produce it.
  ///
  /// The engine must conform to `RemoteLeasing`.
  public var leases: Leases?
  /// A Boolean value that indicates whether machines announce stores and removals, so that others drop their copies.
  ///
  /// The engine must conform to `RemoteAnnouncing`, and its listeners learn the keys. If an announcement is lost, a
  /// copy stays until it expires, or until `revalidatesAfter`.
  public var announcesChanges = false
  /// The age from which on a load that has fetched an object stores it again in the engine, or `nil` to never do so.
  ///
  /// Set it to half of the maximum age if the engine drops objects by age, for example by a lifecycle rule. If the
  /// engine does not report when an object was stored, nothing is stored again.
  public var rewritesAfter: Duration?
  /// A Boolean value that indicates whether a load returns the engine's blob before it is stored in the directory.
  ///
  /// The asynchronous methods of this cache that read or change the record wait for that store. Other methods and
  /// other processes find the blob a moment later. At most `waitingByteLimit` bytes are returned before they are
  /// stored; a load that exceeds the limit waits for its store.
  public var answersBeforeStoring = false
  /// The time that `BlobCache.close` waits for stores and removals that have not reached the engine.
  public var flushesOnCloseFor: Duration = .seconds(2)

  /// The field of HTTP requests that names the process whose tier has sent them.
  package static let senderField = "X-BlobCache-Tier"
  /// The name of this process in requests of its tiers.
  package static let sender = String(UInt64.random(in: .min ... .max), radix: 16)
  /// A Boolean value that indicates whether the current task uses only the directory.
  ///
  /// A server does so for requests of another server's tier. Otherwise, servers that lead to each other would pass on
  /// each other's records without end.
  @TaskLocal package static var isPassedOver = false

  /// The clock of timeouts and pauses; replaced in tests.
  package var clock: any Clock<Duration> = ContinuousClock()
  /// A factor for pauses, from 0.5 to 1, so that machines do not retry simultaneously; replaced in tests.
  package var jitter: @Sendable () -> Double = { .random(in: 0.5...1) }

  /// Creates a remote tier.
  ///
  /// - Parameters:
  ///   - engine: The engine, which is closed with the cache, so each directory needs its own instance.
  ///   - namespace: The namespace of the records in the engine.
  public init(_ engine: any RemoteEngine, namespace: RemoteNamespace) {
    self.engine = engine
    self.namespace = namespace
  }

  /// The operations for which a cache uses the engine.
  public enum Mode: String, CaseIterable, Hashable, Sendable {
    case readWrite
    /// Loads ask the engine; nothing is stored or removed there.
    case readOnly
    /// Stores and removals are sent to the engine; no load asks it.
    case writeOnly

    package var reads: Bool { self != .writeOnly }
    var writes: Bool { self != .readOnly }
  }

  /// The time at which a store that is sent to the engine returns.
  public enum Writing: String, CaseIterable, Hashable, Sendable {
    /// When the blob is stored in the directory.
    case behind
    /// When the engine has also stored the blob or has failed to store it. An event reports the result.
    case through
  }

  /// The settings by which one machine produces a blob while the others wait.
  public struct Leases: Hashable, Sendable {
    /// The time after which a lease expires. If a producer takes longer, another machine may also produce.
    public var duration: Duration = .seconds(30)
    /// The time to wait for another machine before producing anyway.
    public var waits: Duration = .seconds(10)

    public init() {}
  }

  /// The timeouts of requests to the engine.
  public struct Deadlines: Hashable, Sendable {
    /// The time until an answer begins.
    public var firstByte: Duration = .milliseconds(250)
    /// The time between two pieces of an answer.
    public var progress: Duration = .seconds(1)
    /// The time for a whole record that is read.
    public var answer: Duration = .seconds(30)
    /// The additional time for each mebibyte of a record that is read or stored.
    public var perMebibyte: Duration = .seconds(1)
    /// The time for a store or a removal.
    public var change: Duration = .seconds(5)

    public init() {}
  }
}

/// The settings of the circuit breaker, which skips an engine that fails.
public struct BreakerSettings: Hashable, Sendable {
  /// The number of consecutive failures that open the breaker.
  ///
  /// It also opens if at least half of the requests within ten seconds fail, and there are at least twenty.
  public var failures = 5
  /// The time for which the breaker first stays open. Each failed trial doubles it.
  public var pause: Duration = .seconds(1)
  /// The longest time for which the breaker stays open, and the time after a refusal.
  public var longestPause: Duration = .seconds(60)

  public init() {}
}

extension RemoteTier {
  /// A description of the first invalid setting, or `nil` if the settings are valid.
  var fault: String? {
    if let fault = namespace.fault { return fault }
    guard maxConcurrentChanges > 0, waitingByteLimit > 0, breaker.failures > 0 else {
      return "a remote tier needs room for one waiting store, one change at a time and one failure at least"
    }
    if leases != nil, !(engine is any RemoteLeasing) { return "\(engine.name) grants no leases" }
    if announcesChanges, !(engine is any RemoteAnnouncing) { return "\(engine.name) passes no announcements on" }
    let times = [
      revalidatesAfter ?? .seconds(1), rewritesAfter ?? .seconds(1), leases?.duration ?? .seconds(1),
      deadlines.firstByte, deadlines.progress, deadlines.answer, deadlines.change, breaker.pause, breaker.longestPause,
    ]
    return times.allSatisfy { $0 > .zero } ? nil : "the deadlines and pauses of a remote tier are above zero"
  }

  /// The maximum number of bytes of an object in addition to its payload.
  static let overheadByteCount = RecordHeader.byteCount + RecordExtension.maximumTailByteCount + RecordSeal.byteCount

  func takes(_ byteCount: Int64) -> Bool {
    let most = engine.largestObject.map { $0 - Int64(Self.overheadByteCount) }
    return payloadSizes.contains(byteCount) && byteCount <= most ?? .max
  }

  func agrees(with other: RemoteTier) -> Bool {
    engine.name == other.engine.name && namespace == other.namespace && mode == other.mode && writing == other.writing
      && waitingByteLimit == other.waitingByteLimit && maxConcurrentChanges == other.maxConcurrentChanges
      && payloadSizes == other.payloadSizes && deadlines == other.deadlines
      && remembersAbsenceFor == other.remembersAbsenceFor
      && sealKey == other.sealKey && revalidatesAfter == other.revalidatesAfter && leases == other.leases
      && announcesChanges == other.announcesChanges && rewritesAfter == other.rewritesAfter && breaker == other.breaker
      && flushesOnCloseFor == other.flushesOnCloseFor && answersBeforeStoring == other.answersBeforeStoring
  }
}
