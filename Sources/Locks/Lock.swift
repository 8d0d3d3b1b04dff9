public import Synchronization

#if THREAD_SANITIZER
  internal import CLocks
#endif

/// A `Mutex` that the thread sanitizer understands.
///
/// The standard library's `Mutex` is not instrumented, so the sanitizer does not see that one thread waits for
/// another. With `THREAD_SANITIZER`, this type reports it; in other builds, it is a plain mutex. Debug builds also
/// assert the order in which a thread takes locks.
///
/// The type is public because inlined generic code uses it; no product exports this module.
public struct Lock<Value: ~Copyable>: ~Copyable, Sendable {
  @usableFromInline let mutex: Mutex<Value>
  #if DEBUG
    @usableFromInline let rank: LockOrder.Rank
  #endif
  #if THREAD_SANITIZER
    /// An object whose address identifies the lock, because a mutex's address is not accessible.
    @usableFromInline let tag = Tag()
    @usableFromInline final class Tag: Sendable {
      @usableFromInline init() {}
    }
  #endif

  /// - Parameter rank: The lock's rank in the order. The default is the rank of a mutex inside a single type.
  @inlinable public init(_ value: consuming sending Value, rank: LockOrder.Rank = .mutex) {
    mutex = Mutex(value)
    #if DEBUG
      self.rank = rank
    #endif
  }

  /// Waits for the lock, then runs the closure.
  @inlinable public borrowing func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    try mutex.withLock { value throws(Failure) in
      didLock()
      defer { willUnlock() }
      return try body(&value)
    }
  }

  /// - Returns: The closure's result, or `nil`, without running it, if another thread has the lock.
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
    // First, because a value without a size has the rank's address, so reading the rank accesses the value.
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
