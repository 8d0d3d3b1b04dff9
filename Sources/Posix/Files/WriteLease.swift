internal import CPosix
package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The lease that says that nobody else has a file open or mapped, in this process or another, and that keeps it so:
/// whoever opens the file while the lease is held does not wait (`O_NONBLOCK`), and gets EWOULDBLOCK. The lease goes
/// when it is released, or when its file is closed.
///
/// The kernel orders opening a file and leasing it against each other: either the lease is refused because the file was
/// opened, or the one who opens meets the lease. Names have no part in that, so whoever leases a file by its name locks
/// it first, and looks whether the name still leads to it, unless he can tell by something else.
///
/// A lease that somebody has met is taken away after `/proc/sys/fs/lease-break-time`, 45 seconds by default: a holder that
/// is stopped for longer keeps nobody out.
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
    /// The file is open, mapped or leased elsewhere, or it is gone, unwanted, or no regular file.
    case file
    /// Somebody has given the file attributes or an access control list.
    case attributes
    /// Leases are refused to this process, or unknown to this file system: another try is of no use.
    case leases
  }

  /// What the caller makes of a file, by its status.
  package enum Judgement: Sendable {
    case unwanted
    /// It is the one that is wanted, if the name still leads to it.
    case wanted
    /// Nobody has written to it since it got the name, as whoever gives it another one does: so it has kept the name.
    case untouched
  }

  package enum Outcome: ~Copyable {
    /// The file, open for reading and writing, and its length.
    case taken(OpenFile, byteCount: Int64)
    case refused(Refusal)
  }
}

extension Directory {
  /// Opens the regular file `name`, a single component, locks it, and takes a write lease of it. Never waits.
  ///
  /// System calls: `openat(2)`, `flock(2)`, `fstat(2)`, `fstatat(2)` unless untouched, `flistxattr(2)`, `fcntl(2)` twice.
  ///
  /// - Parameter judge: asked with the file's status, when nobody else who locks it can give it another name.
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
    // Whoever holds a lease from here keeps the lock until the file has another name, and has given the lease back before
    // that: without the lock, the file could get that name now, and those who come for it would meet this one's lease.
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
  /// Takes a write lease of the file, which must be open for nobody else.
  ///
  /// - Returns: why there is none; nil if it is taken.
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
