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

/// The owner of a file descriptor, which is closed exactly once.
package struct OpenFile: ~Copyable, Sendable {
  let descriptor: CInt
  package let location: Location
  let files: Files
  private var isOpen = true

  init(descriptor: CInt, location: Location, files: Files) {
    self.descriptor = descriptor
    self.location = location
    self.files = files
  }

  deinit {
    // A caller that needs the error calls `close()`.
    if isOpen { try? files.close(descriptor, location) }
  }

  /// Closes the file and reports the error that `deinit` has to ignore.
  package consuming func close() throws(FileError) {
    isOpen = false
    try files.close(descriptor, location)
  }

  /// Transfers the descriptor to the caller, which has to close it.
  package consuming func release() -> FileDescriptor {
    isOpen = false
    return FileDescriptor(rawValue: descriptor)
  }

  /// Returns an extended attribute, or `nil` if it is missing, too long or not supported by the file system.
  package func attribute(_ name: String, byteCount: Int) throws(FileError) -> [UInt8]? {
    var count = 0
    var value = [UInt8](repeating: 0, count: byteCount)
    do {
      try files.perform(.readAttribute, location) {
        unsafe value.withUnsafeMutableBytes { value in
          unsafe count = blob_read_attribute(descriptor, name, value.baseAddress, value.count)
        }
        return count
      }
    } catch {
      switch error.errno {
      case noSuchAttribute, .outOfRange, .notSupported: return nil
      default: throw error
      }
    }
    return Array(value.prefix(count))
  }

  /// Checks for extended attributes or access control lists of users; attributes of the system are ignored.
  package func hasAttributes() throws(FileError) -> Bool {
    // Sufficient for the attributes of security modules; a longer list contains attributes of users.
    try unsafe withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 256) { names throws(FileError) in
      var count = 0
      do throws(FileError) {
        try files.perform(.listAttributes, location) {
          unsafe count = blob_list_attributes(descriptor, names.baseAddress, names.count)
          return CInt(clamping: count)
        }
      } catch {
        switch error.errno {
        case .notSupported: return false
        case .outOfRange: return true
        default: throw error
        }
      }
      guard count > 0 else { return false }
      return unsafe names[..<count].split(separator: 0).contains { name in
        Self.attributesOfOthers.contains { unsafe name.starts(with: $0.utf8) }
      }
    }
  }

  private static let attributesOfOthers = ["user.", "system."]

  /// The descriptor for poll(2), which must not outlive the file.
  var descriptorToPoll: CInt { descriptor }

  /// The descriptor for sendfile(2), which must not outlive the file.
  package var descriptorToSend: CInt { descriptor }

  package func status() throws(FileError) -> Stat {
    try files.status(of: descriptor, location)
  }

  /// Tries to lock the file for this open file description, or returns `false` if another one holds the lock.
  package func tryLock() throws(FileError) -> Bool {
    LockableDescriptor.note(descriptor)
    do {
      try files.perform(.lock, location) { flock(descriptor, LOCK_EX | LOCK_NB) }
      return true
    } catch {
      guard error.errno == .wouldBlock else { throw error }
      return false
    }
  }

  /// Checks for the lock of `tryLock` with a shared lock, so that concurrent checks do not disturb each other.
  package func isLockedElsewhere() throws(FileError) -> Bool {
    do {
      try files.perform(.lock, location) { flock(descriptor, LOCK_SH | LOCK_NB) }
    } catch {
      guard error.errno == .wouldBlock else { throw error }
      return true
    }
    try files.perform(.lock, location) { flock(descriptor, LOCK_UN) }
    return false
  }

  /// Tries to lock a range of bytes for this open file description, or returns `false` if another one conflicts.
  ///
  /// Threads that share the description do not exclude each other.
  package func tryLock(bytes: Range<Int64>, isShared: Bool = false) throws(FileError) -> Bool {
    LockableDescriptor.note(descriptor)
    do {
      try files.perform(.lockByte, location) {
        blob_lock_bytes(descriptor, bytes.lowerBound, bytes.upperBound - bytes.lowerBound, isShared ? 2 : 1)
      }
      return true
    } catch {
      // POSIX allows both errors.
      guard error.errno == .wouldBlock || error.errno == .permissionDenied else { throw error }
      return false
    }
  }

  package func unlock(bytes: Range<Int64>) throws(FileError) {
    try files.perform(.unlockByte, location) {
      blob_lock_bytes(descriptor, bytes.lowerBound, bytes.upperBound - bytes.lowerBound, 0)
    }
  }

  /// Returns a Boolean value that indicates whether another open file description holds a lock on one of these bytes.
  package func areLockedElsewhere(bytes: Range<Int64>) throws(FileError) -> Bool {
    var answer: CInt = 0
    try files.perform(.askForLock, location) {
      answer = blob_are_bytes_locked(descriptor, bytes.lowerBound, bytes.upperBound - bytes.lowerBound)
      return answer
    }
    return answer != 0
  }

  /// Precedes a step in memory shared through this file, so that a test can intercept the step or let it fail.
  package borrowing func willStep(_ step: SystemCall) throws(FileError) {
    try files.perform(step, location) { CInt(0) }
  }

  borrowing func perform(_ call: SystemCall, _ body: (CInt) -> CInt) throws(FileError) {
    try files.perform(call, location) { body(descriptor) }
  }

  package func truncate(to byteCount: Int64) throws(FileError) {
    try files.perform(.truncate, location) { ftruncate(descriptor, off_t(byteCount)) }
  }

  /// Sets the length of a new file and allocates its blocks.
  ///
  /// Zeros are written if the system does not support the allocation. glibc writes them itself. musl and bionic
  /// return EOPNOTSUPP, EINVAL or ENOSYS, as do the kernel and the file system.
  package func allocate(byteCount: Int64) throws(FileError) {
    do {
      try files.perform(.allocate, location) { blob_allocate(descriptor, byteCount) }
    } catch {
      switch error.errno {
      case .notSupported, .invalidArgument, .noFunction: try writeZeros(byteCount: byteCount)
      default: throw error
      }
    }
  }

  private func writeZeros(byteCount: Int64) throws(FileError) {
    let zeros = [UInt8](repeating: 0, count: Int(min(byteCount, 64 << 10)))
    var offset: Int64 = 0
    while offset < byteCount {
      let count = Int(min(byteCount - offset, Int64(zeros.count)))
      try write(unsafe zeros.span.bytes.extracting(0..<count), at: offset)
      offset += Int64(count)
    }
  }

  /// Returns the reason why the file cannot be shared through a mapping on its file system, if there is one.
  package func mappingHazard() throws(FileError) -> MappingHazard? {
    let hazard = try files.perform(.volumeStatus, location) { blob_mapping_hazard(descriptor) }
    return MappingHazard(rawValue: hazard)
  }

  /// Maps the start of the file, which must not become shorter; a write to a read-only mapping ends the process.
  package func map(byteCount: Int, isWritable: Bool = true) throws(FileError) -> MappedFile {
    let protection = isWritable ? PROT_READ | PROT_WRITE : PROT_READ
    return unsafe MappedFile(adopting: try map(byteCount, protection), byteCount: byteCount)
  }

  /// Maps zeros in place of the file, for reading. They take no memory of their own.
  package func mapZeros(byteCount: Int) throws(FileError) -> MappedFile {
    unsafe MappedFile(adopting: try map(byteCount, PROT_READ, isZeros: true), byteCount: byteCount)
  }

  /// Maps the start of the file for reading. The file may be shorter, and grow.
  package func mapForReading(byteCount: Int) throws(FileError) -> MappedBytes {
    unsafe MappedBytes(adopting: try map(byteCount, PROT_READ), byteCount: byteCount)
  }

  private func map(
    _ byteCount: Int, _ protection: CInt, isZeros: Bool = false
  ) throws(FileError) -> UnsafeMutableRawPointer {
    let flags = isZeros ? MAP_PRIVATE | MAP_ANON : MAP_SHARED
    var base: UnsafeMutableRawPointer?
    try files.perform(.map, location) {
      unsafe base = mmap(nil, byteCount, protection, flags, isZeros ? -1 : descriptor, 0)
      return unsafe base == MAP_FAILED ? -1 : 0
    }
    return unsafe base!
  }

  package func setPermissions(_ permissions: FilePermissions) throws(FileError) {
    try files.perform(.setPermissions, location) { fchmod(descriptor, permissions.rawValue) }
  }

  package func setOwner(user: UserID?, group: GroupID?) throws(FileError) {
    try files.perform(.setOwner, location) { fchown(descriptor, user?.rawValue ?? .max, group?.rawValue ?? .max) }
  }

  /// Syncs written data to the storage device.
  ///
  /// After a failure, a second sync must not follow: the kernel may have dropped the pages and would report success.
  package func synchronize(_ level: SyncLevel) throws(FileError) {
    try files.perform(.sync, location) {
      switch level {
      case .barrier: blob_sync_barrier(descriptor)
      case .full: blob_sync_full(descriptor)
      }
    }
  }
}

package enum MappingHazard: CInt, Sendable {
  /// A network or user-space file system, on which other hosts would not see written data.
  case incoherent = 1
  /// A copy-on-write file system, on which a write to a mapping ends the process when the volume is full.
  case needsRoom = 2
  /// A file system in memory, on which even a read of a hole through a mapping ends the process when it is full.
  case readsNeedRoom = 3

  /// A Boolean value that indicates whether files cannot be shared through a mapping at all.
  package var preventsMapping: Bool { self != .readsNeedRoom }
}

package enum SyncLevel: Sendable {
  /// Data, and the metadata needed to read it, ordered before any later write: fdatasync(2), `F_BARRIERFSYNC`.
  case barrier
  /// Data and metadata, durable on the storage device: fsync(2), `F_FULLFSYNC`.
  case full
}

// MARK: - Transfers

extension OpenFile {
  /// Fills the buffer from `offset`, and returns the number of bytes, which is lower only at the end of the file.
  package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(FileError) -> Int {
    try files.transfer(.read, location, count: buffer.count) { done, limit in
      unsafe pread(descriptor, buffer.baseAddress! + done, limit, off_t(offset) + off_t(done))
    }
  }

  /// Reads the start of the file into two buffers with one call; the result is lower only at the end of the file.
  package func read(
    into first: UnsafeMutableRawBufferPointer, _ second: UnsafeMutableRawBufferPointer
  ) throws(FileError) -> Int {
    let count = first.count + second.count
    return try files.transfer(.read, location, count: count) { done, limit in
      unsafe withVectors(first.baseAddress, first.count, second.baseAddress, done: done, limit: limit) {
        unsafe preadv(descriptor, $0, $1, off_t(done))
      }
    }
  }

  package func write(_ bytes: RawSpan, at offset: Int64) throws(FileError) {
    _ = try unsafe bytes.withUnsafeBytes { buffer throws(FileError) in
      try files.transfer(.write, location, count: buffer.count) { done, limit in
        unsafe pwrite(descriptor, buffer.baseAddress! + done, limit, off_t(offset) + off_t(done))
      }
    }
  }

  /// Writes two spans in order at the start of the file with one call.
  package func write(_ first: RawSpan, _ second: RawSpan) throws(FileError) {
    _ = try unsafe first.withUnsafeBytes { head throws(FileError) in
      try unsafe second.withUnsafeBytes { tail throws(FileError) in
        let base = unsafe UnsafeMutableRawPointer(mutating: head.baseAddress)
        let tailBase = unsafe UnsafeMutableRawPointer(mutating: tail.baseAddress)
        return try files.transfer(.write, location, count: head.count + tail.count) { done, limit in
          unsafe withVectors(base, head.count, tailBase, done: done, limit: limit) {
            unsafe pwritev(descriptor, $0, $1, off_t(done))
          }
        }
      }
    }
  }

  /// Writes a trigger to a file below /proc with write(2), because such files reject the offset of pwrite(2).
  package func writeTrigger(_ trigger: String) throws(FileError) {
    let bytes = Array(trigger.utf8)
    try files.perform(.writeTrigger, location) {
      unsafe bytes.withUnsafeBytes { unsafe platformWrite(descriptor, $0.baseAddress, $0.count) }
    }
  }
}

/// The system call, whose name the methods above shadow.
private func platformWrite(_ descriptor: CInt, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
  unsafe write(descriptor, bytes, count)
}

/// Calls `body` with the vectors for the next `limit` bytes of two buffers, after the first `done` bytes.
@inline(__always)
func withVectors(
  _ first: UnsafeMutableRawPointer?, _ firstCount: Int, _ second: UnsafeMutableRawPointer?, done: Int, limit: Int,
  _ body: (UnsafePointer<iovec>, CInt) -> Int
) -> Int {
  let firstDone = min(done, firstCount)
  let firstLength = min(firstCount - firstDone, limit)
  let secondLength = limit - firstLength
  var vectors = unsafe (
    iovec(iov_base: first.map { unsafe $0 + firstDone }, iov_len: firstLength),
    iovec(iov_base: second.map { unsafe $0 + (done - firstDone) }, iov_len: secondLength)
  )
  return unsafe withUnsafePointer(to: &vectors) { pointer in
    unsafe pointer.withMemoryRebound(to: iovec.self, capacity: 2) { unsafe body($0, secondLength > 0 ? 2 : 1) }
  }
}

#if canImport(Darwin)
  private let noSuchAttribute = Errno.attributeNotFound
#else
  private let noSuchAttribute = Errno.noData
#endif
