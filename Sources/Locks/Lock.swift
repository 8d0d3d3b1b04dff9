public import Synchronization

#if THREAD_SANITIZER
  internal import CLocks
#endif

/// `Mutex`, in a form that the thread sanitizer understands.
///
/// The code that locks a `Mutex` is in the standard library, which is not instrumented. So the sanitizer does not see
/// one thread wait for another. With `THREAD_SANITIZER` this type tells it. In any other build it is the mutex alone.
///
/// It is public for inlined generic code; no product exports this module.
public struct Lock<Value: ~Copyable>: ~Copyable, Sendable {
  @usableFromInline let mutex: Mutex<Value>
  #if THREAD_SANITIZER
    /// Its address stands for the lock, because Swift does not tell a mutex's.
    @usableFromInline let tag = Tag()
    @usableFromInline final class Tag: Sendable {
      @usableFromInline init() {}
    }
  #endif

  @inlinable public init(_ value: consuming sending Value) {
    mutex = Mutex(value)
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
  #if THREAD_SANITIZER
    private var address: UInt { UInt(bitPattern: ObjectIdentifier(tag)) }
    @usableFromInline borrowing func didLock() { blob_sanitizer_acquire(address) }
    @usableFromInline borrowing func willUnlock() { blob_sanitizer_release(address) }
  #else
    @inlinable @inline(__always) borrowing func didLock() {}
    @inlinable @inline(__always) borrowing func willUnlock() {}
  #endif
}
