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

/// Waiting on descriptors that another process has made non-blocking.
///
/// A pipe or a terminal is shared with the process that started this one.
package enum Readiness {
  case toRead, toWrite

  /// Returns once a transfer would not answer EAGAIN.
  ///
  /// It returns also when the transfer would fail, which then says how.
  ///
  /// - Parameter location: what errors call the descriptor.
  package func wait(for descriptor: FileDescriptor, _ location: Location, files: Files) throws(FileError) {
    let events = self == .toRead ? POLLIN : POLLOUT
    var polled = pollfd(fd: descriptor.rawValue, events: Int16(events), revents: 0)
    try files.perform(.poll, location) { unsafe poll(&polled, 1, -1) }
  }

  /// Whether a read would not wait, now or soon.
  package static func hasBytes(on descriptor: FileDescriptor, withinMilliseconds milliseconds: CInt) -> Bool {
    var polled = pollfd(fd: descriptor.rawValue, events: Int16(POLLIN), revents: 0)
    // An interrupted wait is one that has found nothing.
    return unsafe poll(&polled, 1, milliseconds) > 0
  }
}
