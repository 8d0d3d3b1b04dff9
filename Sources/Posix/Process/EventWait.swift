internal import CPosix
internal import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// A file that a wait looks at.
package final class WatchedFile: Sendable {
  let file: OpenFile

  package init(_ file: consuming OpenFile) { self.file = file }
}

/// Lets a thread wait for exceptional conditions of files, until another thread stops it.
///
/// The kernel's pressure files report such conditions.
package final class EventWait: Sendable {
  package enum Outcome: Equatable, Sendable {
    case stopped
    /// Nothing happened in the time given.
    case timeout
    /// The positions of files with an event, and of those that will report no more.
    case events([Int], gone: [Int])
  }

  private static let location = Location("pipe")
  private let files: Files
  private let readEnd: CInt
  private let writeEnd: CInt

  package init(files: Files) throws(FileError) {
    var ends: [CInt] = [-1, -1]
    try files.perform(.pipe, Self.location) { unsafe blob_pipe(&ends) }
    self.files = files
    readEnd = ends[0]
    writeEnd = ends[1]
  }

  deinit {
    // Nothing is lost with the bytes of a pipe that only wakes.
    try? files.close(readEnd, Self.location)
    try? files.close(writeEnd, Self.location)
  }

  /// Ends the wait that is under way, and all later ones at once.
  package func stop() {
    var byte: UInt8 = 0
    // Fails only where the pipe is full of earlier bytes, which wake as well.
    _ = unsafe write(writeEnd, &byte, 1)
  }

  /// Waits for one of the files; without a timeout, until one is ready or the wait is stopped.
  ///
  /// System call: poll(2) with POLLPRI.
  package func next(of watched: [WatchedFile], timeoutMilliseconds: CInt?) throws(FileError) -> Outcome {
    var polled = [pollfd(fd: readEnd, events: Int16(POLLIN), revents: 0)]
    polled += watched.map { pollfd(fd: $0.file.descriptorToPoll, events: Int16(POLLPRI), revents: 0) }
    let count = try files.perform(.poll, watched.first?.file.location ?? Self.location) {
      unsafe poll(&polled, nfds_t(polled.count), timeoutMilliseconds ?? -1)
    }
    if count == 0 { return .timeout }
    if polled[0].revents != 0 { return .stopped }
    func positions(_ events: CInt) -> [Int] {
      watched.indices.filter { CInt(polled[$0 + 1].revents) & events != 0 }
    }
    return .events(positions(POLLPRI), gone: positions(POLLERR | POLLNVAL))
  }
}
