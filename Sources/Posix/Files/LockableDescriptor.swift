internal import CPosix

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Descriptors that may be locked, which a forked child must give up.
///
/// Otherwise it would hold the locks for as long as it lives. A child gives up the descriptors that are noted when it
/// is forked. So opening and noting must be one step for it, and closing and forgetting too.
enum LockableDescriptor {
  /// Makes a call that opens a file, and notes what it answers.
  @inline(__always)
  static func open(_ call: () -> CInt) -> CInt {
    blob_begin_lockable_change()
    let descriptor = call()
    // Notes nothing where the call has failed, and leaves its errno alone.
    blob_note_lockable(descriptor)
    blob_end_lockable_change()
    return descriptor
  }

  /// Notes what was opened without this, before it is locked.
  @inline(__always)
  static func note(_ descriptor: CInt) {
    guard blob_is_lockable(descriptor) == 0 else { return }
    blob_begin_lockable_change()
    blob_note_lockable(descriptor)
    blob_end_lockable_change()
  }

  /// close(2), of a descriptor that may be one of these.
  @inline(__always)
  static func close(_ descriptor: CInt) -> CInt {
    guard blob_is_lockable(descriptor) != 0 else { return platformClose(descriptor) }
    blob_begin_lockable_change()
    blob_forget_lockable(descriptor)
    let result = platformClose(descriptor)
    blob_end_lockable_change()
    return result
  }
}

private func platformClose(_ descriptor: CInt) -> CInt {
  close(descriptor)
}
