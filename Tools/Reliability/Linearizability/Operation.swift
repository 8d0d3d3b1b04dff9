/// One operation on one key, as observed by its caller.
public struct Operation: Sendable, Hashable {
  /// The requested operation.
  public enum Request: Sendable, Hashable {
    /// - Parameter ttl: The time to live in seconds, or 0 for the store's default, counted from the last access.
    case store(value: UInt64, ttl: UInt32, locked: Bool, keepingLocks: Bool)
    case load(touching: Bool)
    case header
    case contains
    case touch
    case lock
    case unlock
    case remove
    /// A collection from the view of one key. It may have removed an unlocked record that was expired or evicted.
    case collect(evicting: Bool)
    /// A wipe of all locked or all unlocked records from the view of one key. Because it is a walk, it may have
    /// missed a record that was stored concurrently.
    case removeAll(locked: Bool)
  }

  /// The answer to the request.
  public enum Response: Sendable, Hashable {
    case done
    case notFound
    case notLocked
    /// A load that read the disk.
    case loaded(value: UInt64, Observation)
    /// A load from memory. Only its value is checked, because locks and touches do not update memory.
    case loadedFromMemory(value: UInt64)
    case observed(Observation)
    /// The caller died or received an error. The operation may have taken effect before `returned`, or never.
    case unknown
  }

  /// The content of a header besides the value.
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

  /// The caller's name, which is only used in reports.
  public var caller: String
  public var request: Request
  public var response: Response
  /// The nanoseconds of a monotonic clock that all callers share.
  public var called: UInt64
  public var returned: UInt64
  /// The bounds of the store's clock during the operation: the seconds at the call and at the return.
  public var firstSecond: UInt32
  public var lastSecond: UInt32
  /// A Boolean value that indicates whether the operation, which must be optional, may take effect repeatedly.
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
  /// A Boolean value that indicates whether the operation may have updated a record's time as a side effect.
  var mayTouch: Bool {
    guard case .load(touching: true) = request else { return false }
    switch response {
    case .loaded, .unknown: return true
    default: return false
    }
  }

  /// The value of the key that the operation has seen.
  var seenValue: UInt64? {
    switch response {
    case .loaded(let value, _), .loadedFromMemory(let value): value
    default: nil
    }
  }

  /// A Boolean value that indicates whether the operation may have had no effect.
  var isOptional: Bool {
    isOnAllKeys || response == .unknown
  }

  /// A Boolean value that indicates whether the request was a single operation on all keys.
  public var isOnAllKeys: Bool {
    switch request {
    case .collect, .removeAll: true
    default: false
    }
  }
}

extension Operation {
  /// A Boolean value that indicates whether the operation has certainly changed the key, and so has held its lock.
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
