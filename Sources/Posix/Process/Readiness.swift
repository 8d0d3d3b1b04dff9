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

/// Waits for descriptors that another process has made non-blocking, such as a shared pipe or terminal.
package enum Readiness {
  case toRead, toWrite

  /// Returns when a transfer would no longer fail with EAGAIN, including when it would fail with another error.
  package func wait(for descriptor: FileDescriptor, _ location: Location, files: Files) throws(FileError) {
    let events = self == .toRead ? POLLIN : POLLOUT
    var polled = pollfd(fd: descriptor.rawValue, events: Int16(events), revents: 0)
    try files.perform(.poll, location) { unsafe poll(&polled, 1, -1) }
  }

  /// Returns a Boolean value that indicates whether a read would not block, within a timeout.
  package static func hasBytes(on descriptor: FileDescriptor, withinMilliseconds milliseconds: CInt) -> Bool {
    var polled = pollfd(fd: descriptor.rawValue, events: Int16(POLLIN), revents: 0)
    // An interrupted wait counts as a timeout.
    return unsafe poll(&polled, 1, milliseconds) > 0
  }
}
