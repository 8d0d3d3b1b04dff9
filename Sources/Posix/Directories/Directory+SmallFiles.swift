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

/// What lies at a name where a small file is likely.
package enum SmallFile: ~Copyable {
  /// A regular file of its owners', as it was read, and closed again.
  case read(byteCount: Int)
  /// A regular file of a believed owner, larger than the buffer.
  ///
  /// The buffer's content is undefined.
  case larger(OpenFile, Stat)
  case absent
  /// Not a regular file, or another user's.
  case foreign
  /// A regular file of a believed owner that others may write to too.
  ///
  /// The buffer's content is undefined.
  case exposed
}

extension Directory {
  /// Reads a regular file that is smaller than the buffer, or opens a larger one.
  ///
  /// `name` and `subdirectory` are as in `openFile`.
  ///
  /// The status is spared in one case. Only believed users may enter the owners' directory, and the opening itself has
  /// shown that the file is the caller's (`AccessTime.tellsOwner`). Then the end of the file tells its size. Reading at
  /// an offset fails for all but files, and for devices that the superuser has given to the caller. A result that looks
  /// odd may be a short read or such a device: the caller reads again, with `asksStatus` set.
  ///
  /// System calls: `openat2(2)`, `fstat(2)` unless it is spared, `preadv(2)` unless the file is known to be larger,
  /// `close(2)`.
  ///
  /// - Parameter asksStatus: whether to ask for the status first in any case. Then a file that is larger is not read in
  ///   vain.
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
    // Nothing was written through it, so closing it loses nothing.
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

  /// Reads by one call, which may end before the file does.
  ///
  /// - Returns: nil if it fails: why, a look at the status tells, or another read that fails.
  private func readOnce(
    _ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer, _ place: () -> Location
  ) -> Int? {
    try? files.transfer(.read, place(), count: buffer.count, endsShort: true) { _, limit in
      unsafe pread(descriptor, buffer.baseAddress, limit, 0)
    }
  }
}

/// Why a look that never waits has no answer: the ordinary look has one.
package enum CachedLookFailure: Error {
  /// It would have to wait, or meets what the ordinary look reports.
  case notCached
  /// The kernel, a filter before it, or the file system has no such call.
  case unsupported
}

extension Directory {
  /// Opens the regular file `name` in `subdirectory`, if the kernel knows all of the path by heart; never waits.
  ///
  /// The time of access must be ours to leave alone: moving it may wait for the file system's journal.
  ///
  /// System calls: `openat2(2)` with `RESOLVE_CACHED`, `fstat(2)`.
  package func openCachedFile(
    _ name: String, in subdirectory: String
  ) throws(CachedLookFailure) -> OpenedFile {
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
      // EPERM for another user's file, whose time of access is not ours to leave alone; or of a filter.
      case .noFunction, .invalidArgument, .notPermitted: throw .unsupported
      default: throw .notCached
      }
    }
    let file = OpenFile(descriptor: opened, location: place, files: files)
    // The ordinary look meets the failure again, and reports it.
    guard let status = try? file.status() else { throw .notCached }
    return status.type == .regular ? .regular(file, status) : .notRegular
  }
}

extension OpenFile {
  /// Reads into two buffers in order, by one call that never waits for the disk.
  ///
  /// - Parameter offset: where to begin in the file.
  /// - Returns: the number of bytes, fewer than the buffers hold where the file ends, or where the rest is on the disk.
  package func readCached(
    into first: UnsafeMutableRawBufferPointer,
    _ second: UnsafeMutableRawBufferPointer = unsafe UnsafeMutableRawBufferPointer(start: nil, count: 0),
    at offset: Int64 = 0
  ) throws(CachedLookFailure) -> Int {
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
