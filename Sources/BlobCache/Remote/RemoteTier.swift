internal import BlobRecord

/// A tier behind the directory, which other machines share: a remote engine, and how it is used.
///
/// A load that finds nothing here asks the engine, and keeps what it gets. A store goes to the engine when it has its place
/// here. Locks, touches and collections are this machine's alone. Spec/Remote.md says what is promised.
///
/// The engine is never in the way: opening waits for nothing, a failure is a miss, and one that goes on is met without a wait.
public struct RemoteTier: Sendable {
  public let engine: any RemoteEngine
  /// Where in the engine the records lie.
  public var namespace: RemoteNamespace
  public var mode = Mode.readWrite
  /// When a store that goes to the engine returns.
  public var writing = Writing.behind
  /// Bytes of stores that wait for the engine, at most. The oldest give way, and each is told of.
  public var waitingByteLimit = 64 << 20
  /// Stores and removals that are under way at once.
  public var maxConcurrentChanges = 8
  /// The sizes of payloads that go to the engine, in bytes.
  ///
  /// Smaller ones may not be worth a request, and larger ones not be taken. A key should stay on one side.
  public var payloadSizes: ClosedRange<Int64> = 0...(1 << 30)
  public var deadlines = Deadlines()
  /// How long the engine's answer that it has nothing is remembered.
  public var remembersAbsenceFor: Duration = .seconds(5)
  public var breaker = BreakerSettings()
  /// By what records are sealed, where others may write to the engine; nil for records as they are.
  ///
  /// All machines need the same. A record without this key's seal is a miss.
  public var sealKey: RemoteSealKey?
  /// How old the engine's word about a blob that lies here may be when a load answers it; nil for any age.
  ///
  /// A load of an older one asks for the header of the engine's object first, 64 bytes. If that is another blob's, it is
  /// fetched. An engine that fails, or has no object any more, leaves what lies here.
  public var revalidatesAfter: Duration?
  /// Whether one machine of several produces a blob that is missing; nil where each may.
  ///
  /// The engine must be a `RemoteLeasing`.
  public var leases: Leases?
  /// Whether machines tell each other of stores and removals, and drop their copies. Those who listen learn the keys.
  ///
  /// The engine must be a `RemoteAnnouncing`. An announcement that is lost leaves a copy until its end, or until
  /// `revalidatesAfter`.
  public var announcesChanges = false
  /// The age of an object from which on a load that has fetched it writes it again; nil not to.
  ///
  /// For engines that drop objects by their age, such as by a lifecycle rule: half of that age. Where the engine does not
  /// tell when an object was put there, nothing is written again.
  public var rewritesAfter: Duration?
  /// Whether a load answers what the engine has before that has its place in the directory.
  ///
  /// The store follows. Looks at a record and changes of it wait for that store, where they are asynchronous verbs of this
  /// cache. The others, and other processes, find the blob a moment later. Up to `waitingByteLimit` bytes are under way
  /// so; a load beyond them waits for its store.
  public var answersBeforeStoring = false
  /// How long `BlobCache.close` waits for stores that have not reached the engine.
  public var flushesOnCloseFor: Duration = .seconds(2)

  /// The clock of deadlines and pauses; for tests.
  package var clock: any Clock<Duration> = ContinuousClock()
  /// A factor of pauses, from 0.5 to 1, so that machines do not come back all at once; for tests.
  package var jitter: @Sendable () -> Double = { .random(in: 0.5...1) }

  /// - Parameters:
  ///   - engine: is closed with the cache, so each directory has one of its own.
  ///   - namespace: where in the engine the records lie.
  public init(_ engine: any RemoteEngine, namespace: RemoteNamespace) {
    self.engine = engine
    self.namespace = namespace
  }

  /// What a cache does with the engine.
  public enum Mode: String, CaseIterable, Hashable, Sendable {
    case readWrite
    /// Loads ask it; nothing is stored there or removed.
    case readOnly
    /// Stores and removals go there; no load asks it.
    case writeOnly

    /// Whether loads ask the engine.
    package var reads: Bool { self != .writeOnly }
    var writes: Bool { self != .readOnly }
  }

  /// When a store that goes to the engine returns.
  public enum Writing: String, CaseIterable, Hashable, Sendable {
    /// When it has its place in the directory.
    case behind
    /// When the engine has it too, or has failed to take it. An event tells which.
    case through
  }

  /// How one machine of several produces a blob, while the others wait.
  public struct Leases: Hashable, Sendable {
    /// When a lease ends by itself. A producer that takes longer may be joined by another.
    public var duration: Duration = .seconds(30)
    /// How long another machine is waited for, before producing all the same.
    public var waits: Duration = .seconds(10)

    public init() {}
  }

  /// How long the engine may take.
  public struct Deadlines: Hashable, Sendable {
    /// Until an answer begins.
    public var firstByte: Duration = .milliseconds(250)
    /// Between two pieces of an answer.
    public var progress: Duration = .seconds(1)
    /// For a whole record that is read.
    public var answer: Duration = .seconds(30)
    /// For each mebibyte of a record that is read or stored, besides.
    public var perMebibyte: Duration = .seconds(1)
    /// For a store or a removal: until its answer begins, besides.
    public var change: Duration = .seconds(5)

    public init() {}
  }
}

/// When an engine that fails is left alone.
public struct BreakerSettings: Hashable, Sendable {
  /// Failures one after another that open the breaker. Half of twenty requests or more within ten seconds do, too.
  public var failures = 5
  /// The first time that it stays open. Each failed trial doubles it.
  public var pause: Duration = .seconds(1)
  /// The longest time that it stays open, and how long it does after a refusal.
  public var longestPause: Duration = .seconds(60)

  public init() {}
}

extension RemoteTier {
  /// What is wrong with the settings; nil if nothing is.
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

  /// Bytes of an object beside its payload, at the most.
  static let overheadByteCount = RecordHeader.byteCount + RecordExtension.maximumTailByteCount + RecordSeal.byteCount

  /// Whether a payload of this size goes to the engine.
  func takes(_ byteCount: Int64) -> Bool {
    let most = engine.largestObject.map { $0 - Int64(Self.overheadByteCount) }
    return payloadSizes.contains(byteCount) && byteCount <= most ?? .max
  }

  /// Whether two caches on one directory use the tier alike.
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
