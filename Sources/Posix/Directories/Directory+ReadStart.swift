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

package enum FileStart {
  /// - Parameter byteCount: The number of bytes read, fewer than requested only at the end of the file.
  case regular(Stat, byteCount: Int)
  case absent
  /// A directory, link, FIFO, socket or device.
  case notRegular
}

extension Directory {
  /// Reads the beginning of the regular file at the current entry of a listing of this directory.
  ///
  /// Walks read many files, so the method does not allocate, and it never waits, not even for a FIFO.
  ///
  /// System calls: `openat(2)`, `fstat(2)`, `pread(2)`, `close(2)`.
  package func readStart(
    of stream: borrowing DirectoryStream, into buffer: UnsafeMutableRawBufferPointer
  ) throws(FileError) -> FileStart {
    let descriptor: CInt
    do {
      descriptor = try passingMoves { () throws(FileError) in
        try files.sparingAccessTime { flags throws(FileError) in
          try files.perform(.open, stream.entryLocation) {
            unsafe blob_openat(self.descriptor, stream.entryName, O_RDONLY | O_NOFOLLOW | fileFlags | flags, 0)
          }
        }
      }
    } catch {
      switch error.errno {
      case .noSuchFileOrDirectory: return .absent
      case .tooManySymbolicLinkLevels, .noSuchAddressOrDevice, .isDirectory, .operationNotSupportedByDevice,
        .openedSocket:
        return .notRegular
      default: throw error
      }
    }
    do {
      let start = try unsafe readStart(of: stream, descriptor, into: buffer)
      // Nothing was written, so an error on closing loses nothing.
      try? files.close(descriptor, stream.entryLocation)
      return start
    } catch {
      try? files.close(descriptor, stream.entryLocation)
      throw error
    }
  }

  private func readStart(
    of stream: borrowing DirectoryStream, _ descriptor: CInt, into buffer: UnsafeMutableRawBufferPointer
  ) throws(FileError) -> FileStart {
    let status = try files.status(of: descriptor, stream.entryLocation)
    guard status.type == .regular else { return .notRegular }
    let count = try files.transfer(.read, stream.entryLocation, count: buffer.count) { done, limit in
      unsafe pread(descriptor, buffer.baseAddress! + done, limit, off_t(done))
    }
    return .regular(status, byteCount: count)
  }
}
