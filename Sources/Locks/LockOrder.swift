#if DEBUG
  internal import CLocks
#endif

/// The order in which a thread takes locks; debug builds assert it.
///
/// Threads that take their locks in the same order cannot deadlock. Spec/Architecture.md describes each rank.
public enum LockOrder {
  /// The rank of a lock.
  ///
  /// A thread takes a lock only while its other locks have lower ranks, unless the rank is nestable.
  public enum Rank: Int, CaseIterable, Sendable {
    /// The cursor of an enumeration, while it reads a batch. The first batch writes staged blobs, which may collect.
    case listing
    /// The gate of a collection within a process, and the collector's byte.
    case collection
    /// A batch of recorded uses while it is written.
    case touches
    /// A key's stripe.
    case stripe
    /// A mutex inside a single type.
    case mutex

    /// A Boolean value that indicates whether locks of this rank can be nested.
    ///
    /// A mutex may be taken inside the mutex of another type that calls nothing else. The gate of another directory's
    /// collection may be taken because a caller's closure may start that collection, which never waits for another
    /// gate. Stores of many keys hold many stripes and only try to take each further one (`willWait`).
    @usableFromInline var isNestable: Bool { self != .listing && self != .touches }
  }

  /// The locks that a thread holds, as a count for each rank.
  public struct Held: Equatable, Sendable {
    /// Twelve bits for each rank.
    @usableFromInline var counts: UInt64 = 0
    private static let bitCount = 12

    public init() {}

    /// Returns a Boolean value that indicates whether the thread may take a lock of the rank.
    public func allows(_ rank: Rank) -> Bool {
      let refusing = UInt64.max << UInt64(Self.bitCount * (rank.rawValue + (rank.isNestable ? 1 : 0)))
      return counts & refusing == 0
    }

    /// Returns a Boolean value that indicates whether the thread holds no lock of the rank or of a higher one.
    public func allowsWait(for rank: Rank) -> Bool { counts >> UInt64(Self.bitCount * rank.rawValue) == 0 }

    public mutating func take(_ rank: Rank) { counts += 1 << UInt64(Self.bitCount * rank.rawValue) }
    public mutating func free(_ rank: Rank) { counts -= 1 << UInt64(Self.bitCount * rank.rawValue) }
  }
}

#if DEBUG
  extension LockOrder {
    /// Records that the thread has taken a lock.
    ///
    /// Traps if the order does not allow it.
    public static func didTake(_ rank: Rank) {
      let held = held
      precondition(held.allows(rank), "a lock of rank \(rank) is out of order: \(held)")
      self.held.take(rank)
    }

    /// Records that the thread waits for a lock that other threads only try to take.
    ///
    /// Traps if the order does not allow it.
    public static func willWait(for rank: Rank) {
      let held = held
      precondition(held.allowsWait(for: rank), "a wait for a lock of rank \(rank) is out of order: \(held)")
    }

    public static func willFree(_ rank: Rank) { held.free(rank) }

    /// Runs a caller's code, or a test's code that acts as another process, as if the thread held no locks.
    public static func outside<Result: ~Copyable, Failure: Error>(
      _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
      let before = held
      held = Held()
      defer { held = before }
      return try body()
    }

    private static var held: Held {
      get {
        var held = Held()
        unsafe held.counts = blob_lock_order_word().pointee
        return held
      }
      set { unsafe blob_lock_order_word().pointee = newValue.counts }
    }
  }
#else
  extension LockOrder {
    @inlinable @inline(__always) public static func didTake(_ rank: Rank) {}
    @inlinable @inline(__always) public static func willWait(for rank: Rank) {}
    @inlinable @inline(__always) public static func willFree(_ rank: Rank) {}
    @inlinable @inline(__always) public static func outside<Result: ~Copyable, Failure: Error>(
      _ body: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
      try body()
    }
  }
#endif
