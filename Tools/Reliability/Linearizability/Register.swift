/// What a key may hold: the sequential specification that every history is held against (Spec/Semantics.md).
///
/// The clock is an input of each operation: it lies between the seconds at its call and at its return. A load moves the
/// update time only if it can do so without waiting. So the update time lies between two bounds, and both answers are
/// allowed where a moment between them decides.
public struct Register: Hashable, Sendable {
  /// 0 while there is no record.
  public var value: UInt64 = 0
  public var refCount: UInt32 = 0
  public var ttl: UInt32 = 0
  /// The least and the greatest that the update time may be.
  public var updatedFrom: UInt32 = 0
  public var updatedTo: UInt32 = 0

  public init() {}

  static let absent = Register()

  /// Whether a clock between the operation's seconds may have shown the record live.
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
  /// What the register holds after an operation; nil if the operation cannot have answered so at this point.
  ///
  /// - Parameter touchedUntil: the latest second at which a load that overlaps the operation may touch the record.
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

  /// The header that was returned must have been live by itself.
  private func isLiveAsObserved(
    _ observation: Operation.Observation, _ operation: Operation, _ defaultTTL: UInt32
  ) -> Bool {
    refCount > 0
      || UInt64(operation.firstSecond) <= UInt64(observation.updateTime) + UInt64(lifetime(defaultTTL))
  }
}

extension Operation {
  /// Whether it leaves the register as it is, or widens the update time at the most, wherever it takes effect. Then
  /// nothing is lost by letting it take effect as early as it can.
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
