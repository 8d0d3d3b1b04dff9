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

package enum OpenedFile: ~Copyable {
  case regular(OpenFile, Stat)
  case absent
  /// The name belongs to something else, or the path leads through something that is not a directory.
  case notRegular
}

enum OpenedDescriptor {
  case opened(CInt), absent, notRegular
}

package enum FileAccess: Sendable {
  case read, readWrite

  fileprivate var flags: CInt {
    switch self {
    case .read: O_RDONLY
    case .readWrite: O_RDWR
    }
  }
}

let fileFlags = O_NONBLOCK | O_CLOEXEC | O_NOCTTY

extension Directory {
  /// Opens the regular file `name` in `subdirectory`; both may be paths.
  ///
  /// The call never waits for a FIFO or for the end of a lease. If another process holds a lease on the file, the
  /// lookup is repeated for some milliseconds.
  ///
  /// System calls: `openat2(2)` (component by component if the call is refused) and `fstat(2)`.
  ///
  /// - Throws: EAGAIN if another process holds a lease on the file for the whole time.
  package func openFile(
    _ name: String, in subdirectory: String = "", for access: FileAccess
  ) throws(FileError) -> OpenedFile {
    switch try openWhatever(name, in: subdirectory, for: access) {
    case .absent: return .absent
    case .notRegular: return .notRegular
    case .opened(let descriptor):
      let file = OpenFile(descriptor: descriptor, location: location.appending(name, in: subdirectory), files: files)
      let status = try file.status()
      return status.type == .regular ? .regular(file, status) : .notRegular
    }
  }

  func openWhatever(
    _ name: String, in subdirectory: String, for access: FileAccess
  ) throws(FileError) -> OpenedDescriptor {
    do {
      return .opened(
        try passingMoves { () throws(FileError) in
          try files.sparingAccessTime { flags throws(FileError) in
            try openBeneath(name, in: subdirectory, access.flags | fileFlags | flags)
          }
        })
    } catch {
      switch error.errno {
      case .noSuchFileOrDirectory: return .absent
      // A link; a file as subdirectory; a socket or a FIFO without reader; a directory; a device without driver.
      case .tooManySymbolicLinkLevels, .notDirectory, .noSuchAddressOrDevice, .isDirectory,
        .operationNotSupportedByDevice, .openedSocket:
        return .notRegular
      default: throw error
      }
    }
  }

  private func openBeneath(_ name: String, in subdirectory: String, _ flags: CInt) throws(FileError) -> CInt {
    guard !files.refusesOpenBeneath else { return try walk(name, in: subdirectory, flags) }
    do {
      return try files.perform(.openBeneath, location.appending(name, in: subdirectory)) {
        open(flags) { unsafe withPath(name, in: subdirectory) { unsafe blob_open_beneath(descriptor, $0, flags, 0) } }
      }
    } catch {
      // A kernel before 5.6 lacks the call, and a seccomp filter may refuse unknown calls with EPERM.
      guard error.errno == .noFunction || error.errno == .notPermitted else { throw error }
      return try walk(name, in: subdirectory, flags, afterRefusal: error.errno)
    }
  }

  /// Opens a file component by component after a refusal, and records the refusal if the call caused it.
  private func walk(
    _ name: String, in subdirectory: String, _ flags: CInt, afterRefusal refusal: Errno
  ) throws(FileError) -> CInt {
    do throws(FileError) {
      let opened = try walk(name, in: subdirectory, flags)
      files.noteOpenBeneathRefused()
      return opened
    } catch {
      // If this attempt fails with the same EPERM, the file caused it.
      if error.errno != refusal { files.noteOpenBeneathRefused() }
      throw error
    }
  }

  private func walk(_ name: String, in subdirectory: String, _ flags: CInt) throws(FileError) -> CInt {
    let location = location.appending(name, in: subdirectory)
    return try walk(subdirectory.isEmpty ? name : subdirectory + "/" + name, flags, location)
  }

  /// Opens each component separately, without following links.
  private func walk(_ relativePath: String, _ flags: CInt, _ location: Location) throws(FileError) -> CInt {
    guard let slash = relativePath.utf8.firstIndex(of: UInt8(ascii: "/")) else {
      return try files.perform(.open, location) {
        open(flags) { unsafe relativePath.withCString { unsafe blob_openat(descriptor, $0, flags | O_NOFOLLOW, 0) } }
      }
    }
    let name = String(relativePath[..<slash])
    guard let subdirectory = try openSubdirectory(name) else {
      throw FileError(.open, location, .noSuchFileOrDirectory)
    }
    return try subdirectory.walk(String(relativePath[relativePath.utf8.index(after: slash)...]), flags, location)
  }

  /// Opens the file `name`, which must not be a link, for reading and writing; never waits.
  func openFileToWrite(_ name: String) throws(FileError) -> OpenFile {
    let fileLocation = at(name)
    let opened = try files.sparingAccessTime { flags throws(FileError) in
      try files.perform(.open, fileLocation) {
        LockableDescriptor.open {
          unsafe name.withCString { unsafe blob_openat(descriptor, $0, O_RDWR | O_NOFOLLOW | fileFlags | flags, 0) }
        }
      }
    }
    return OpenFile(descriptor: opened, location: fileLocation, files: files)
  }

  /// Opens the pipe or character device `name`, not a link, for writing, or returns `nil`; waits for a pipe's reader.
  package func openOutput(_ name: String) throws(FileError) -> OpenFile? {
    let fileLocation = at(name)
    let opened = try files.perform(.open, fileLocation) {
      unsafe name.withCString { unsafe blob_openat(descriptor, $0, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0) }
    }
    let file = OpenFile(descriptor: opened, location: fileLocation, files: files)
    // The type is checked after opening, because the name may have been given to another file before.
    guard [.fifo, .characterSpecial].contains(try file.status().type) else { return nil }
    return file
  }

  /// Creates a file that must not exist yet, for reading and writing.
  package func createFile(_ name: String, permissions: FilePermissions) throws(FileError) -> OpenFile {
    let fileLocation = at(name)
    let created = try files.perform(.open, fileLocation) {
      LockableDescriptor.open {
        unsafe name.withCString {
          unsafe blob_openat(
            descriptor, $0, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | fileFlags, permissions.rawValue)
        }
      }
    }
    return OpenFile(descriptor: created, location: fileLocation, files: files)
  }
}

/// Makes a call that opens a file, and registers the descriptor if it is writable and can therefore be locked.
@inline(__always)
private func open(_ flags: CInt, _ call: () -> CInt) -> CInt {
  flags & O_ACCMODE == O_RDONLY ? call() : LockableDescriptor.open(call)
}

/// Calls `open` again while the file is being renamed.
///
/// The next attempt opens the file that has the name by then. A file that is being renamed has a lease on it
/// (EWOULDBLOCK), or leaves the directory during the lookup (EXDEV). A longer lease of another program is an error.
func passingMoves<Result>(_ open: () throws(FileError) -> Result) throws(FileError) -> Result {
  var triesLeft = 16
  while true {
    do {
      return try open()
    } catch {
      guard error.errno == .wouldBlock || error.errno == .improperLink, triesLeft > 0 else { throw error }
      triesLeft -= 1
      // Immediately at first, then after 50 us, doubled each time: 13 ms in total.
      if triesLeft < 8 { SystemClock.sleep(microseconds: 50 << (7 - triesLeft)) }
    }
  }
}

/// Calls `body` with the C string of `subdirectory/name` or `name`, without heap allocation.
func withPath<Result>(
  _ name: String, in subdirectory: String, _ body: (UnsafePointer<CChar>) -> Result
) -> Result {
  guard !subdirectory.isEmpty else { return unsafe name.withCString(body) }
  let (directoryCount, nameCount) = (subdirectory.utf8.count, name.utf8.count)
  return unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: directoryCount + 1 + nameCount + 1) { path in
    unsafe subdirectory.withCString { unsafe path.baseAddress!.update(from: $0, count: directoryCount) }
    unsafe path[directoryCount] = CChar(UInt8(ascii: "/"))
    unsafe name.withCString { unsafe (path.baseAddress! + directoryCount + 1).update(from: $0, count: nameCount + 1) }
    return unsafe body(path.baseAddress!)
  }
}
