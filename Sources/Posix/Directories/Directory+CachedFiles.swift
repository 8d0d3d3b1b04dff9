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
