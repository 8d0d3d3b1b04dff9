package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// What lies at a name where a file was looked for that is likely to be small.
package enum SmallFile: ~Copyable {
  /// A regular file of its owners', as it was read, and closed again.
  case read(byteCount: Int)
  /// A regular file of its owners' that takes more room than there is. Nothing is said of what is in the buffer.
  case larger(OpenFile, Stat)
  case absent
  /// Not a regular file, or somebody else's.
  case foreign
  /// A regular file of its owners' to which others may write too. Nothing is said of what is in the buffer.
  case exposed
}

extension Directory {
  /// Reads a whole regular file that is smaller than the buffer; of a larger one, opens it. `name` and `subdirectory` are
  /// what they are to `openFile`.
  ///
  /// Where only those who are believed may enter the owners' directory, and the kernel has told by the opening itself that the
  /// file is the caller's (`AccessTime.tellsOwner`), its status is not asked for: its end tells its size, and what is no file fails to be read at an offset, but for a device that the
  /// superuser has given to the caller. What looks odd then may have been read short, or be such a device: the caller reads
  /// it again, `asksStatus` set.
  ///
  /// System calls: `openat2(2)`, `fstat(2)` unless it is spared, `preadv(2)` unless the file is known to be larger, `close(2)`.
  ///
  /// - Parameter asksStatus: whether to ask for the status first in any case: what is likely to be larger is then not read.
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
