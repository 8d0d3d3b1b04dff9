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

package final class WatchedFile: Sendable {
  let file: OpenFile

  package init(_ file: consuming OpenFile) { self.file = file }
}

/// Lets a thread wait for exceptional conditions of files, such as the kernel's pressure files, until it is stopped.
package final class EventWait: Sendable {
  package enum Outcome: Equatable, Sendable {
    case stopped
    case timeout
    /// The positions of files with an event, and of files that will report no more events.
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
    // The pipe only wakes the thread, so its bytes can be lost.
    try? files.close(readEnd, Self.location)
    try? files.close(writeEnd, Self.location)
  }

  /// Ends the current wait, and lets all later ones return immediately.
  package func stop() {
    var byte: UInt8 = 0
    // Fails only if the pipe is full of earlier bytes, which wake the thread as well.
    _ = unsafe write(writeEnd, &byte, 1)
  }

  /// Waits with poll(2), POLLPRI, until a file is ready, the wait is stopped or the timeout, if any, has passed.
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
