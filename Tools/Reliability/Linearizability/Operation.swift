/// One operation on one key, as its caller saw it from outside.
public struct Operation: Sendable, Hashable {
  /// What was asked for.
  public enum Request: Sendable, Hashable {
    /// - Parameter ttl: seconds; 0 for the store's default, counted from the last access.
    case store(value: UInt64, ttl: UInt32, locked: Bool, keepingLocks: Bool)
    case load(touching: Bool)
    case header
    case contains
    case touch
    case lock
    case unlock
    case remove
    /// A collection, seen from one key. It may have removed an unlocked record that was expired, or that it evicted.
    case collect(evicting: Bool)
    /// A wipe of all records that are locked, or of all that are not, seen from one key. It is a walk: a record that
    /// came while it was under way it may have missed.
    case removeAll(locked: Bool)
  }

  /// What was answered.
  public enum Response: Sendable, Hashable {
    case done
    case notFound
    case notLocked
    /// A load that read the disk.
    case loaded(value: UInt64, Observation)
    /// A load answered from memory, where only the value counts: locks and touches do not reach into memory.
    case loadedFromMemory(value: UInt64)
    case observed(Observation)
    /// The caller died, or was told of an error: the operation may have taken effect before `returned`, or never.
    case unknown
  }

  /// What a header says besides the value.
  public struct Observation: Sendable, Hashable {
    public var refCount: UInt32
    public var ttl: UInt32
    public var updateTime: UInt32

    public init(refCount: UInt32, ttl: UInt32, updateTime: UInt32) {
      self.refCount = refCount
      self.ttl = ttl
      self.updateTime = updateTime
    }
  }

  /// The caller's name, only for reports.
  public var caller: String
  public var request: Request
  public var response: Response
  /// Nanoseconds of a clock that all callers share and that never goes back.
  public var called: UInt64
  public var returned: UInt64
  /// The seconds that the store's clock showed at the call and at the return. The second that the store saw lies
  /// between.
  public var firstSecond: UInt32
  public var lastSecond: UInt32
  /// Whether it may take effect again and again while it is under way. Only for what need not take effect.
  public var recurs = false

  public init(
    caller: String = "", _ request: Request, _ response: Response, called: UInt64, returned: UInt64,
    firstSecond: UInt32 = 0, lastSecond: UInt32 = 0
  ) {
    self.caller = caller
    self.request = request
    self.response = response
    self.called = called
    self.returned = returned
    self.firstSecond = firstSecond
    self.lastSecond = lastSecond
  }
}

extension Operation {
  /// Whether it may have moved the update time of a record beside what it was asked for.
  var mayTouch: Bool {
    guard case .load(touching: true) = request else { return false }
    switch response {
    case .loaded, .unknown: return true
    default: return false
    }
  }

  /// The value that it says the key had.
  var seenValue: UInt64? {
    switch response {
    case .loaded(let value, _), .loadedFromMemory(let value): value
    default: nil
    }
  }

  /// Whether it may be left out of the order altogether.
  var isOptional: Bool {
    isOnAllKeys || response == .unknown
  }

  /// Whether it was one operation on all keys.
  public var isOnAllKeys: Bool {
    switch request {
    case .collect, .removeAll: true
    default: false
    }
  }
}

extension Operation {
  /// Whether it has changed the key, with nobody's help: it has held the key's lock.
  public var hasChanged: Bool {
    switch request {
    case .store, .touch, .lock, .unlock, .remove: response == .done
    case .load, .header, .contains, .collect, .removeAll: false
    }
  }
}

extension Operation: CustomStringConvertible {
  public var description: String {
    "\(called)...\(returned) s \(firstSecond)...\(lastSecond) \(caller): \(request) -> \(response)"
  }
}
