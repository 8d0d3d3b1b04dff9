/// The sequential specification of one key, with which every history is compared (Spec/Semantics.md).
///
/// The clock is an input of each operation, between the seconds at its call and its return. A load moves the update
/// time only if it does not have to wait. So the update time is between two bounds, and both answers are allowed if a
/// time between the bounds decides.
public struct Register: Hashable, Sendable {
  /// The value, or 0 without a record.
  public var value: UInt64 = 0
  public var refCount: UInt32 = 0
  public var ttl: UInt32 = 0
  /// The bounds of the update time.
  public var updatedFrom: UInt32 = 0
  public var updatedTo: UInt32 = 0

  public init() {}

  static let absent = Register()

  /// Returns whether the record was live at any time between the operation's seconds.
  func mayBeLive(_ operation: Operation, defaultTTL: UInt32) -> Bool {
    value != 0
      && (refCount > 0 || UInt64(operation.firstSecond) <= UInt64(updatedTo) + UInt64(lifetime(defaultTTL)))
  }

  func mayBeDead(_ operation: Operation, defaultTTL: UInt32) -> Bool {
    value == 0
      || (refCount == 0 && UInt64(operation.lastSecond) > UInt64(updatedFrom) + UInt64(lifetime(defaultTTL)))
  }

  private func lifetime(_ defaultTTL: UInt32) -> UInt32 { ttl > 0 ? ttl : defaultTTL }
}

extension Register {
  /// Returns the register after an operation, or `nil` if the operation cannot have had this answer.
  ///
  /// - Parameter touchedUntil: The latest second at which an overlapping load may touch the record.
  func after(_ operation: Operation, touchedUntil: UInt32, defaultTTL: UInt32) -> Register? {
    let isLive = mayBeLive(operation, defaultTTL: defaultTTL)
    var next = self
    switch (operation.request, operation.response) {
    case (_, .notFound):
      if operation.request == .remove { return value == 0 ? self : nil }
      return mayBeDead(operation, defaultTTL: defaultTTL) ? self : nil

    case (.store(let value, let ttl, let locked, let keepingLocks), .done),
      (.store(let value, let ttl, let locked, let keepingLocks), .unknown):
      next.value = value
      next.ttl = ttl
      next.refCount = keepingLocks ? max(refCount, locked ? 1 : 0) : (locked ? 1 : 0)
      next.updatedFrom = operation.firstSecond
      next.updatedTo = max(operation.lastSecond, touchedUntil)

    case (.load(let touching), .loaded(let value, let observation)):
      guard value == self.value, agrees(with: observation), isLive else { return nil }
      guard isLiveAsObserved(observation, operation, defaultTTL) else { return nil }
      if touching, ttl == 0 { next.updatedTo = max(updatedTo, operation.lastSecond) }

    case (.load, .loadedFromMemory(let value)):
      guard value == self.value, isLive else { return nil }

    case (.load(let touching), .unknown):
      if touching, ttl == 0, isLive { next.updatedTo = max(updatedTo, operation.lastSecond) }

    case (.header, .observed(let observation)):
      guard agrees(with: observation), isLive, isLiveAsObserved(observation, operation, defaultTTL) else { return nil }

    case (.contains, .done):
      guard isLive else { return nil }

    case (.touch, .done), (.touch, .unknown):
      guard isLive else { return nil }
      if ttl == 0 {
        next.updatedFrom = max(updatedFrom, operation.firstSecond)
        next.updatedTo = max(updatedTo, operation.lastSecond)
      }

    case (.lock, .done), (.lock, .unknown):
      guard isLive, refCount < .max else { return nil }
      next.refCount += 1

    case (.unlock, .done), (.unlock, .unknown):
      guard value != 0, refCount > 0 else { return nil }
      next.refCount -= 1

    case (.unlock, .notLocked):
      guard isLive, refCount == 0 else { return nil }

    case (.remove, .done), (.remove, .unknown):
      guard value != 0 else { return nil }
      next = .absent

    case (.collect(let evicting), _):
      guard value != 0, refCount == 0, evicting || mayBeDead(operation, defaultTTL: defaultTTL) else { return nil }
      next = .absent

    case (.removeAll(let locked), _):
      guard value != 0, (refCount > 0) == locked else { return nil }
      next = .absent

    case (.header, .unknown), (.contains, .unknown): break
    default: return nil
    }
    return next
  }

  private func agrees(with observation: Operation.Observation) -> Bool {
    value != 0 && refCount == observation.refCount && ttl == observation.ttl
      && (updatedFrom...max(updatedFrom, updatedTo)).contains(observation.updateTime)
  }

  /// Returns whether the returned header was live by itself.
  private func isLiveAsObserved(
    _ observation: Operation.Observation, _ operation: Operation, _ defaultTTL: UInt32
  ) -> Bool {
    refCount > 0
      || UInt64(operation.firstSecond) <= UInt64(observation.updateTime) + UInt64(lifetime(defaultTTL))
  }
}

extension Operation {
  /// A Boolean value that indicates whether the operation never changes more than the bounds of the update time.
  /// Applying it as early as possible then loses no order.
  var isHarmless: Bool {
    switch response {
    case .notFound, .notLocked, .loaded, .loadedFromMemory, .observed: true
    case .done: request == .contains
    case .unknown: false
    }
  }
}

extension Register: CustomStringConvertible {
  public var description: String {
    value == 0
      ? "absent" : "value \(value) refCount \(refCount) ttl \(ttl) updateTime \(updatedFrom)...\(updatedTo)"
  }
}
