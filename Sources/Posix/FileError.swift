package import SystemPackage

/// A failed system call, with its location and errno.
package struct FileError: Error, Sendable {
  package let call: SystemCall
  package let location: Location
  package let errno: Errno

  package init(_ call: SystemCall, _ location: Location, _ errno: Errno) {
    self.call = call
    self.location = location
    self.errno = errno
  }

  package var path: FilePath { location.path }
}

extension FileError: CustomStringConvertible {
  /// A description such as `open(2): Permission denied: /var/cache/x`.
  package var description: String { "\(call.manualPage): \(errno): \(path.string)" }
}

extension Errno {
  /// The errno of open(2) for a socket.
  static var openedSocket: Errno {
    #if canImport(Darwin)
      .notSupportedOnSocket
    #else
      .noSuchAddressOrDevice
    #endif
  }
}

/// The kinds of system calls, to which errors refer, and by which tests count calls and inject failures.
package enum SystemCall: String, CaseIterable, Sendable {
  case open, openBeneath, openCached, openDirectory, openUnnamed, openMemory, close
  case status, read, readCached, write, truncate, sync
  case rename, renameNoReplace, renameExchange, link, linkUnnamed, unlink
  case makeDirectory, removeDirectory, listDirectory
  case setPermissions, setOwner, lock, lockByte, unlockByte, askForLock, lease
  case volumeStatus, allocate, allocateRange, findData, reserve, punchHole, map, readAttribute, listAttributes
  case workingDirectory, pipe, poll, writeTrigger
  // Steps in shared memory, which a test can intercept like system calls.
  case takeStripe, freeStripe, announce, exchangeEntry, markDead, growIndex

  package var manualPage: String {
    switch self {
    case .open, .openDirectory, .openUnnamed: "open(2)"
    case .openBeneath, .openCached: "openat2(2)"
    case .openMemory: "memfd_create(2)"
    case .close: "close(2)"
    case .status: "fstat(2)"
    case .read: "preadv(2)"
    case .readCached: "preadv2(2)"
    case .write: "pwritev(2)"
    case .truncate: "ftruncate(2)"
    case .sync: "fsync(2)"
    case .rename: "rename(2)"
    case .renameNoReplace, .renameExchange: "rename(2)"
    case .link, .linkUnnamed: "link(2)"
    case .unlink, .removeDirectory: "unlink(2)"
    case .makeDirectory: "mkdir(2)"
    case .listDirectory: "readdir(3)"
    case .setPermissions: "fchmod(2)"
    case .setOwner: "fchown(2)"
    case .lock: "flock(2)"
    case .lockByte, .unlockByte, .askForLock, .lease: "fcntl(2)"
    case .volumeStatus: "fstatvfs(3)"
    case .allocate: "posix_fallocate(3)"
    case .allocateRange, .reserve, .punchHole: "fallocate(2)"
    case .findData: "lseek(2)"
    case .map: "mmap(2)"
    case .readAttribute: "fgetxattr(2)"
    case .listAttributes: "flistxattr(2)"
    case .workingDirectory: "getcwd(3)"
    case .pipe: "pipe2(2)"
    case .poll: "poll(2)"
    case .writeTrigger: "write(2)"
    case .takeStripe, .freeStripe, .announce, .exchangeEntry, .markDead, .growIndex: "shared memory"
    }
  }
}
