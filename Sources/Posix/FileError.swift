package import SystemPackage

/// A system call that failed: which, on what, and why.
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
  /// Such as `open(2): Permission denied: /var/cache/x`.
  package var description: String { "\(call.manualPage): \(errno): \(path.string)" }
}

extension Errno {
  /// The error of open(2) for a socket.
  static var openedSocket: Errno {
    #if canImport(Darwin)
      .notSupportedOnSocket
    #else
      .noSuchAddressOrDevice
    #endif
  }
}
