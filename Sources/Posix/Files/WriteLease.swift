internal import CPosix
package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A proof that no other process has a file open or mapped, which holds until the lease is released.
///
/// In the meantime, a non-blocking open (`O_NONBLOCK`) fails with EWOULDBLOCK. The kernel orders leases and opens,
/// but not names: lock the file first, and check that its name still refers to it. If the holder is stopped after
/// another process has opened the file, the lease ends after at most 45 seconds (`/proc/sys/fs/lease-break-time`).
package enum WriteLease {
  /// A Boolean value that indicates whether programs can take leases on the platform; Darwin has no such call.
  package static var isAvailable: Bool {
    #if os(Linux)
      true
    #else
      false
    #endif
  }

  package enum Refusal: Sendable {
    /// The file is open, mapped or leased elsewhere, missing, unwanted, or not regular.
    case file
    /// The file has attributes or an access control list.
    case attributes
    /// This process or file system does not support leases, so another attempt would fail too.
    case leases
  }

  package enum Judgement: Sendable {
    case unwanted
    /// The file is wanted if the name still refers to it.
    case wanted
    /// The file was not written to since it got the name; a process that renames it would write to it first.
    case untouched
  }

  package enum Outcome: ~Copyable {
    case taken(OpenFile, byteCount: Int64)
    case refused(Refusal)
  }
}

extension Directory {
  /// Locks the regular file `name`, a single component, and takes a write lease on it; never waits.
  ///
  /// System calls: `openat(2)`, `flock(2)`, `fstat(2)`, `fstatat(2)` unless untouched, `flistxattr(2)`, 2 x `fcntl(2)`.
  ///
  /// - Parameter judge: Receives the file's status while the lock prevents other holders from renaming the file.
  package func leaseFile(
    _ name: String, _ judge: (Stat) -> WriteLease.Judgement
  ) throws(FileError) -> WriteLease.Outcome {
    let file: OpenFile
    do {
      file = try openFileToWrite(name)
    } catch {
      switch error.errno {
      case .noSuchFileOrDirectory, .wouldBlock, .tooManySymbolicLinkLevels, .noSuchAddressOrDevice, .isDirectory,
        .operationNotSupportedByDevice, .openedSocket, .permissionDenied, .notPermitted, .textFileBusy:
        return .refused(.file)
      default: throw error
      }
    }
    // The holder of a lease keeps this lock until the file is renamed and the lease is released. Without the lock,
    // the file could get its name now, and its readers would meet this lease.
    guard try file.tryLock() else { return .refused(.file) }
    let status = try file.status()
    guard status.type == .regular else { return .refused(.file) }
    switch judge(status) {
    case .unwanted: return .refused(.file)
    case .untouched: break
    case .wanted:
      // Between the open and the lock, the file may have been renamed, and must not be overwritten then.
      guard let named = try self.status(of: name), named.inode == status.inode, named.deviceID == status.deviceID
      else { return .refused(.file) }
    }
    guard try !file.hasAttributes() else { return .refused(.attributes) }
    if let refusal = try file.takeWriteLease() { return .refused(refusal) }
    return .taken(file, byteCount: status.size)
  }
}

extension OpenFile {
  /// Takes a write lease on the file, which must not be open elsewhere, or returns the reason for a refusal.
  package borrowing func takeWriteLease() throws(FileError) -> WriteLease.Refusal? {
    do {
      try perform(.lease) { blob_take_write_lease($0) }
      return nil
    } catch {
      switch error.errno {
      case .wouldBlock, .resourceBusy: return .file
      case .permissionDenied, .notPermitted, .invalidArgument, .notSupported, .noFunction, .noLocks: return .leases
      default: throw error
      }
    }
  }

  /// Releases the lease, so that others can open the file. From here on, no partial writes to it are allowed.
  package borrowing func releaseLease() throws(FileError) {
    try perform(.lease) { blob_release_lease($0) }
  }
}

/// The registry of descriptors that may be locked, which a forked child has to close.
///
/// Otherwise the child would hold the locks for its lifetime. A fork must not separate opening from registering, or
/// closing from unregistering, because the child closes the descriptors registered at that time.
enum LockableDescriptor {
  @inline(__always)
  static func open(_ call: () -> CInt) -> CInt {
    blob_begin_lockable_change()
    let descriptor = call()
    // If the call has failed, this registers nothing and preserves errno.
    blob_note_lockable(descriptor)
    blob_end_lockable_change()
    return descriptor
  }

  /// Registers a descriptor that was opened without `open`, before it is locked.
  @inline(__always)
  static func note(_ descriptor: CInt) {
    guard blob_is_lockable(descriptor) == 0 else { return }
    blob_begin_lockable_change()
    blob_note_lockable(descriptor)
    blob_end_lockable_change()
  }

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
