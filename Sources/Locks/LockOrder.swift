#if DEBUG
  internal import CLocks
#endif

/// The order in which a thread takes locks; debug builds assert it.
///
/// Threads that take their locks in one order never wait for each other in a circle. Spec/Architecture.md says what each
/// rank stands for.
public enum LockOrder {
  /// A thread takes a lock only while those that it holds have lower ranks, but for a nestable one.
  public enum Rank: Int, CaseIterable, Sendable {
    /// An enumeration between its batches. Before the first it writes what is staged, which may collect on a full volume.
    case listing
    /// The gate of one collection in a process, and the collector's byte.
    case collection
    /// A batch of noted uses, while it is written.
    case touches
    /// A key's stripe.
    case stripe
    /// A mutex within one type.
    case mutex

    /// Whether one may be taken within another.
    ///
    /// A mutex may be taken within that of another type, which calls nothing else. So may the gate of another
    /// directory's collection, which a caller's closure starts, and which waits for none. Stores of many keys hold many
    /// stripes: within one, another is only tried (`willWait`).
    @usableFromInline var isNestable: Bool { self != .listing && self != .touches }
  }

  /// The locks that a thread holds: a count for each rank.
  public struct Held: Equatable, Sendable {
    /// Twelve bits for each rank.
    @usableFromInline var counts: UInt64 = 0
    private static let bitCount = 12

    public init() {}

    /// Whether the order allows a lock of the rank now.
    public func allows(_ rank: Rank) -> Bool {
      let refusing = UInt64.max << UInt64(Self.bitCount * (rank.rawValue + (rank.isNestable ? 1 : 0)))
      return counts & refusing == 0
    }

    /// Whether the thread may wait for a lock of the rank: it holds none of it, and none of a higher one.
    public func allowsWait(for rank: Rank) -> Bool { counts >> UInt64(Self.bitCount * rank.rawValue) == 0 }

    public mutating func take(_ rank: Rank) { counts += 1 << UInt64(Self.bitCount * rank.rawValue) }
    public mutating func free(_ rank: Rank) { counts -= 1 << UInt64(Self.bitCount * rank.rawValue) }
  }
}

#if DEBUG
  extension LockOrder {
    /// Notes that the thread has a lock.
    ///
    /// Traps where the order does not allow it.
    public static func didTake(_ rank: Rank) {
      let held = held
      precondition(held.allows(rank), "a lock of rank \(rank) is out of order: \(held)")
      self.held.take(rank)
    }

    /// Notes that the thread waits for a lock which others only try.
    ///
    /// Traps where the order does not allow it.
    public static func willWait(for rank: Rank) {
      let held = held
      precondition(held.allowsWait(for: rank), "a wait for a lock of rank \(rank) is out of order: \(held)")
    }

    public static func willFree(_ rank: Rank) { held.free(rank) }

    /// Runs foreign code as if the thread held nothing: a caller's, or a test's in the place of another process.
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
