public import Synchronization

#if THREAD_SANITIZER
  internal import CLocks
#endif

/// `Mutex`, in a form that the thread sanitizer understands.
///
/// The code that locks a `Mutex` is in the standard library, which is not instrumented. So the sanitizer does not see
/// one thread wait for another. With `THREAD_SANITIZER` this type tells it. In any other build it is the mutex alone.
///
/// Debug builds assert the order in which a thread takes locks.
///
/// It is public for inlined generic code; no product exports this module.
public struct Lock<Value: ~Copyable>: ~Copyable, Sendable {
  @usableFromInline let mutex: Mutex<Value>
  #if DEBUG
    @usableFromInline let rank: LockOrder.Rank
  #endif
  #if THREAD_SANITIZER
    /// Its address stands for the lock, because Swift does not tell a mutex's.
    @usableFromInline let tag = Tag()
    @usableFromInline final class Tag: Sendable {
      @usableFromInline init() {}
    }
  #endif

  /// - Parameter rank: the lock's place in the order; that of a mutex within one type if nothing is said.
  @inlinable public init(_ value: consuming sending Value, rank: LockOrder.Rank = .mutex) {
    mutex = Mutex(value)
    #if DEBUG
      self.rank = rank
    #endif
  }

  /// Runs the body when no other thread has the lock.
  @inlinable public borrowing func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    try mutex.withLock { value throws(Failure) in
      didLock()
      defer { willUnlock() }
      return try body(&value)
    }
  }

  /// - Returns: nil, without running the body, if another thread has the lock.
  @inlinable public borrowing func withLockIfAvailable<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result? {
    try mutex.withLockIfAvailable { value throws(Failure) in
      didLock()
      defer { willUnlock() }
      return try body(&value)
    }
  }
}

extension Lock where Value: ~Copyable {
  @inlinable @inline(__always) borrowing func didLock() {
    // First: where a value has no size, its address is the rank's, and a look at that is a look at the value.
    #if THREAD_SANITIZER
      tellAcquired()
    #endif
    #if DEBUG
      LockOrder.didTake(rank)
    #endif
  }

  @inlinable @inline(__always) borrowing func willUnlock() {
    #if DEBUG
      LockOrder.willFree(rank)
    #endif
    #if THREAD_SANITIZER
      tellReleased()
    #endif
  }

  #if THREAD_SANITIZER
    private var address: UInt { UInt(bitPattern: ObjectIdentifier(tag)) }
    @usableFromInline borrowing func tellAcquired() { blob_sanitizer_acquire(address) }
    @usableFromInline borrowing func tellReleased() { blob_sanitizer_release(address) }
  #endif
}
