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

/// Proves that no other process has a file open or mapped, and keeps it so.
///
/// An open without waiting (`O_NONBLOCK`) gets EWOULDBLOCK while it is held. The kernel orders leases and
/// opens, but not names: lock the file first and look if its name still leads to it.
///
/// A holder that is stopped after an open keeps it for 45 seconds at most (`/proc/sys/fs/lease-break-time`).
package enum WriteLease {
  /// Whether the platform has leases. Darwin has none that a program could take.
  package static var isAvailable: Bool {
    #if os(Linux)
      true
    #else
      false
    #endif
  }

  /// Why there is no lease.
  package enum Refusal: Sendable {
    /// The file is open, mapped or leased elsewhere, missing, unwanted, or not regular.
    case file
    /// The file has attributes or an access control list.
    case attributes
    /// This process or file system has no leases: another try is of no use.
    case leases
  }

  /// The caller's judgement of a file, by its status.
  package enum Judgement: Sendable {
    case unwanted
    /// It is the one that is wanted, if the name still leads to it.
    case wanted
    /// The file was not written to since it got the name, so it has kept it.
    ///
    /// A process that gives it another name writes to it first.
    case untouched
  }

  package enum Outcome: ~Copyable {
    /// The file, open for reading and writing, and its length.
    case taken(OpenFile, byteCount: Int64)
    case refused(Refusal)
  }
}

extension Directory {
  /// Locks the regular file `name`, a single component, and takes a write lease of it.
  ///
  /// It never waits.
  ///
  /// System calls: `openat(2)`, `flock(2)`, `fstat(2)`, `fstatat(2)` unless untouched, `flistxattr(2)`, `fcntl(2)`
  /// twice.
  ///
  /// - Parameter judge: receives the file's status, when no other holder of the lock can give it another name.
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
    // The holder of a lease keeps this lock until the file has another name and the lease is given back. Without the
    // lock, the file could get its name now, and its readers would meet this lease.
    guard try file.tryLock() else { return .refused(.file) }
    let status = try file.status()
    guard status.type == .regular else { return .refused(.file) }
    switch judge(status) {
    case .unwanted: return .refused(.file)
    case .untouched: break
    case .wanted:
      // Between the look at the name and the lock, the file may have got another: then it is not ours to overwrite.
      guard let named = try self.status(of: name), named.inode == status.inode, named.deviceID == status.deviceID
      else { return .refused(.file) }
    }
    guard try !file.hasAttributes() else { return .refused(.attributes) }
    if let refusal = try file.takeWriteLease() { return .refused(refusal) }
    return .taken(file, byteCount: status.size)
  }
}

extension OpenFile {
  /// Takes a write lease of the file, which must be open nowhere else.
  ///
  /// - Returns: why it was refused; nil if it is taken.
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

  /// Lets others open the file. From here on nothing may be written to it that they must not see half done.
  package borrowing func releaseLease() throws(FileError) {
    try perform(.lease) { blob_release_lease($0) }
  }
}

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
