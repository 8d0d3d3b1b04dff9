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

package enum SmallFile: ~Copyable {
  /// A regular file of a trusted owner, which was read and closed.
  case read(byteCount: Int)
  /// A regular file of a trusted owner that is larger than the buffer, whose contents are undefined.
  case larger(OpenFile, Stat)
  case absent
  /// The name does not belong to a regular file, or the file belongs to another user.
  case foreign
  /// A regular file of a trusted owner that untrusted users may write to; the buffer's contents are undefined.
  case exposed
}

extension Directory {
  /// Reads a regular file that is smaller than the buffer, or opens a larger one; the names are as in `openFile`.
  ///
  /// The status is not read if only trusted users may enter the owners' directory, and if the open itself has proved
  /// that the file belongs to the caller (`AccessTime.tellsOwner`). The size is then known from the end of the file.
  /// Reading at an offset fails for everything except files and devices that the superuser has given to the caller.
  /// If the result is implausible, the caller reads again with `asksStatus` set.
  ///
  /// System calls: `openat2(2)`, `fstat(2)` unless skipped, `preadv(2)` unless the file is larger, `close(2)`.
  ///
  /// - Parameter asksStatus: A Boolean value that indicates whether to read the status first in any case.
  package func readSmallFile(
    _ name: String, in subdirectory: String, of owners: FileOwners, asksStatus: Bool,
    into buffer: UnsafeMutableRawBufferPointer
  ) throws(FileError) -> SmallFile {
    let descriptor: CInt
    switch try openWhatever(name, in: subdirectory, for: .read) {
    case .absent: return .absent
    case .notRegular: return .foreign
    case .opened(let opened): descriptor = opened
    }
    func place() -> Location { location.appending(name, in: subdirectory) }
    var staysOpen = false
    // Nothing was written, so an error on closing loses nothing.
    defer { if !staysOpen { try? files.close(descriptor, place()) } }

    if !asksStatus, owners.isClosed, files.hasOpenedOwnFile,
      let count = unsafe readOnce(descriptor, into: buffer, place), count < buffer.count
    {
      return .read(byteCount: count)
    }
    let status = try files.status(of: descriptor, place())
    guard status.type == .regular, owners.include(ownerOf: status) else { return .foreign }
    guard !owners.expose(status) else { return .exposed }
    guard status.size < buffer.count else {
      staysOpen = true
      return .larger(OpenFile(descriptor: descriptor, location: place(), files: files), status)
    }
    let count = try files.transfer(.read, place(), count: Int(status.size)) { done, limit in
      unsafe pread(descriptor, buffer.baseAddress! + done, limit, off_t(done))
    }
    return .read(byteCount: count)
  }

  /// Reads with one call, which may be short, or returns `nil`; the status or the next read reports the error.
  private func readOnce(
    _ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer, _ place: () -> Location
  ) -> Int? {
    try? files.transfer(.read, place(), count: buffer.count, endsShort: true) { _, limit in
      unsafe pread(descriptor, buffer.baseAddress, limit, 0)
    }
  }
}

/// The reason why a non-blocking lookup has no result; the blocking lookup has one.
package enum CachedLookupFailure: Error {
  /// The lookup would have to wait, or meets an error that the blocking lookup reports.
  case notCached
  /// The kernel, a seccomp filter or the file system does not support the call.
  case unsupported
}

extension Directory {
  /// Opens the regular file `name` in `subdirectory` if the kernel has the whole path cached; never waits.
  ///
  /// The open must not update the access time, because the update may wait for the file system's journal.
  ///
  /// System calls: `openat2(2)` with `RESOLVE_CACHED`, `fstat(2)`.
  package func openCachedFile(
    _ name: String, in subdirectory: String
  ) throws(CachedLookupFailure) -> OpenedFile {
    guard AccessTime.flags != 0, !files.refusesToSpareAccessTime else { throw .unsupported }
    let place = location.appending(name, in: subdirectory)
    let opened: CInt
    do {
      opened = try files.perform(.openCached, place) {
        unsafe withPath(name, in: subdirectory) {
          unsafe blob_open_cached(descriptor, $0, O_RDONLY | fileFlags | AccessTime.flags)
        }
      }
    } catch {
      switch error.errno {
      case .noSuchFileOrDirectory: return .absent
      // EPERM for another user's file, for which `O_NOATIME` is not permitted, or from a seccomp filter.
      case .noFunction, .invalidArgument, .notPermitted: throw .unsupported
      default: throw .notCached
      }
    }
    let file = OpenFile(descriptor: opened, location: place, files: files)
    // The blocking lookup meets the same error and reports it.
    guard let status = try? file.status() else { throw .notCached }
    return status.type == .regular ? .regular(file, status) : .notRegular
  }
}

extension OpenFile {
  /// Reads into two buffers in order with one call that never waits for the disk.
  ///
  /// - Returns: The number of bytes, which is lower at the end of the file or of its cached part.
  package func readCached(
    into first: UnsafeMutableRawBufferPointer,
    _ second: UnsafeMutableRawBufferPointer = unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0),
    at offset: Int64 = 0
  ) throws(CachedLookupFailure) -> Int {
    let count = first.count + second.count
    do {
      return try files.transfer(.readCached, location, count: count, endsShort: true) { done, limit in
        unsafe withVectors(first.baseAddress, first.count, second.baseAddress, done: done, limit: limit) {
          unsafe blob_read_cached(descriptor, $0, $1, offset + Int64(done))
        }
      }
    } catch {
      throw error.errno == .notSupportedOnSocket || error.errno == .noFunction ? .unsupported : .notCached
    }
  }
}
