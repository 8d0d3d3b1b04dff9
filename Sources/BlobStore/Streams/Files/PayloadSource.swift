package import BlobRecord
package import Posix
internal import SystemPackage

/// A source from which a payload is read in pieces: a file, which can be read again, or a pipe, socket or terminal.
package final class PayloadSource: Sendable {
  private let descriptor: FileDescriptor
  /// The path for error messages, if known.
  private let path: FilePath?
  private let files: Files
  private let isOwned: Bool
  /// The status of a regular file before it was read.
  private let before: Stat?
  /// The offset at which reading starts, or `nil` if the source cannot be read again.
  let start: Int64?
  /// The number of readable bytes, or 0 if it is unknown.
  package let byteCount: Int64

  init(_ descriptor: FileDescriptor, path: FilePath? = nil, files: Files, isOwned: Bool = false) {
    self.descriptor = descriptor
    self.path = path
    self.files = files
    self.isOwned = isOwned
    before = Files.statusOfRegularFile(descriptor)
    // A descriptor without an offset is read only once.
    start = before == nil ? nil : try? descriptor.seek(offset: 0, from: .current)
    byteCount = max(0, (before?.size ?? 0) - (start ?? 0))
  }

  /// Opens a file. If `waits`, it waits for a writer of a pipe, and reads wait for bytes.
  convenience init(opening path: FilePath, files: Files, waits: Bool) throws {
    let descriptor: FileDescriptor
    do {
      descriptor = try FileDescriptor.open(
        path, .readOnly, options: waits ? .closeOnExec : [.closeOnExec, .nonBlocking])
    } catch let error as Errno {
      throw FileError(.open, Location(path), error)
    }
    self.init(descriptor, path: path, files: files, isOwned: true)
  }

  deinit {
    // Nothing was written to the descriptor, so an error of `close` loses no data.
    if isOwned { try? descriptor.close() }
  }

  package var canBeReadAgain: Bool { start != nil }
}

// MARK: - Reading

extension PayloadSource {
  /// Waits, without blocking a thread, until a read would not block. Throws `CancellationError`, or `fileSystem` if
  /// the system cannot provide a thread, a pipe or memory.
  package func waitForBytes(by watch: ReadinessWatch, for key: BlobKey) async throws {
    do {
      try await watch.wait(for: descriptor)
    } catch let error as FileError {
      throw BlobStoreError(failure(error.call.manualPage, error.errno), operation: "store", key: key)
    } catch let error as Errno {
      throw BlobStoreError(failure("pthread_create(3)", error), operation: "store", key: key)
    }
  }

  /// Returns a Boolean value that indicates whether a read would not block, now or within the timeout.
  func isReady(withinMilliseconds milliseconds: CInt) -> Bool {
    Readiness.hasBytes(on: descriptor, withinMilliseconds: milliseconds)
  }

  func rewind(to start: Int64) throws(BlobStoreError) {
    do {
      try descriptor.seek(offset: start, from: .start)
    } catch {
      throw failure("lseek(2)", error)
    }
  }

  /// Reads available bytes, after waiting for the first one. Returns the number of bytes, or 0 at the end.
  func read(into buffer: UnsafeMutableRawBufferPointer) throws(BlobStoreError) -> Int {
    while true {
      do {
        return unsafe try descriptor.read(into: buffer)
      } catch Errno.wouldBlock, Errno.resourceTemporarilyUnavailable {
        do {
          try Readiness.toRead.wait(for: descriptor, location, files: files)
        } catch {
          throw failure(error.call.manualPage, error.errno)
        }
      } catch {
        throw failure("read(2)", error)
      }
    }
  }

  private var location: Location { Location(path ?? FilePath()) }

  private func failure(_ systemCall: String, _ error: any Error) -> BlobStoreError {
    BlobStoreError(
      .fileSystem, "\(systemCall) of the input: \(error)", path: path, systemCall: systemCall, errno: error as? Errno)
  }
}

// MARK: - Moving

extension PayloadSource {
  /// Removes a regular file that has been read, unless it has changed or another file has its name.
  ///
  /// System calls: `openat(2)`, `fstatat(2)`, `unlink(2)`.
  package func removeFile(storedAs key: BlobKey) throws(BlobStoreError) {
    try withErrorContext("store", key) {
      guard let before, let path, let name = path.lastComponent?.string,
        let directory = try Directory(at: files.absolute(path).removingLastComponent(), files: files),
        let now = try directory.status(of: name), FileIdentity(now) == FileIdentity(before),
        now.size == before.size, now.modificationNanoseconds == before.modificationNanoseconds
      else { return }
      _ = try directory.unlink(name)
    }
  }
}
