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

/// Owns one descriptor of a file; closes it exactly once.
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
    // A caller that must know of a failing close calls close().
    if isOpen { try? files.close(descriptor, location) }
  }

  /// Closes, reporting the error that `deinit` has to drop.
  package consuming func close() throws(FileError) {
    isOpen = false
    try files.close(descriptor, location)
  }

  /// Gives the descriptor away: its new owner closes it.
  package consuming func release() -> FileDescriptor {
    isOpen = false
    return FileDescriptor(rawValue: descriptor)
  }

  /// An extended attribute of at most `byteCount` bytes.
  ///
  /// It is nil if the file has none of that name, if it is longer, or if the file system knows no attributes.
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

  /// Whether the file has extended attributes or an access control list from a user.
  ///
  /// Attributes that the system gives a file for itself do not count.
  package func hasAttributes() throws(FileError) -> Bool {
    // Enough for the attributes of security modules; longer lists have some from users.
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

  /// For poll(2), which must not outlive the file.
  var descriptorToPoll: CInt { descriptor }

  /// For sendfile(2), which must not outlive the file.
  package var descriptorToSend: CInt { descriptor }

  package func status() throws(FileError) -> Stat {
    try files.status(of: descriptor, location)
  }

  /// Tries to lock the file for this open file description alone.
  ///
  /// The lock ends with the last descriptor of the description.
  ///
  /// - Returns: false if another description holds the lock.
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

  /// Whether another open file description has the file locked by `tryLock`.
  ///
  /// The answer is found by a shared lock, which is given back at once, so that any number may ask at a time.
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

  /// Tries to lock a range of bytes for this open file description alone. Threads that share it are not kept apart.
  ///
  /// - Parameter isShared: whether others may hold shared locks there, too.
  /// - Returns: false if another description holds a lock there that excludes this one.
  package func tryLock(bytes: Range<Int64>, isShared: Bool = false) throws(FileError) -> Bool {
    LockableDescriptor.note(descriptor)
    do {
      try files.perform(.lockByte, location) {
        blob_lock_bytes(descriptor, bytes.lowerBound, bytes.upperBound - bytes.lowerBound, isShared ? 2 : 1)
      }
      return true
    } catch {
      // POSIX leaves it to the system which of the two it is.
      guard error.errno == .wouldBlock || error.errno == .permissionDenied else { throw error }
      return false
    }
  }

  package func unlock(bytes: Range<Int64>) throws(FileError) {
    try files.perform(.unlockByte, location) {
      blob_lock_bytes(descriptor, bytes.lowerBound, bytes.upperBound - bytes.lowerBound, 0)
    }
  }

  /// Whether another open file description holds a lock on one of these bytes.
  package func areLockedElsewhere(bytes: Range<Int64>) throws(FileError) -> Bool {
    var answer: CInt = 0
    try files.perform(.askForLock, location) {
      answer = blob_are_bytes_locked(descriptor, bytes.lowerBound, bytes.upperBound - bytes.lowerBound)
      return answer
    }
    return answer != 0
  }

  /// Comes before a step in memory that is shared by this file: a test may step in, or have it fail.
  package borrowing func willStep(_ step: SystemCall) throws(FileError) {
    try files.perform(step, location) { CInt(0) }
  }

  /// Makes a call on the descriptor.
  borrowing func perform(_ call: SystemCall, _ body: (CInt) -> CInt) throws(FileError) {
    try files.perform(call, location) { body(descriptor) }
  }

  /// Cuts the file off, or lengthens it by zeros.
  package func truncate(to byteCount: Int64) throws(FileError) {
    try files.perform(.truncate, location) { ftruncate(descriptor, off_t(byteCount)) }
  }

  /// Gives a new file its length, and its blocks at once.
  ///
  /// Where the system cannot, zeros are written. glibc does that by itself. musl and bionic answer EOPNOTSUPP, EINVAL
  /// or ENOSYS, as the kernel or the file system does.
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

  /// The reason why the file cannot be shared through a mapping on its file system.
  package func mappingHazard() throws(FileError) -> MappingHazard? {
    let hazard = try files.perform(.volumeStatus, location) { blob_mapping_hazard(descriptor) }
    return MappingHazard(rawValue: hazard)
  }

  /// Maps the start of the file, shared with all that map it.
  ///
  /// The file must be as long and stay so.
  ///
  /// - Parameter isWritable: false for words that are only read. A write to one ends the process.
  package func map(byteCount: Int, isWritable: Bool = true) throws(FileError) -> MappedFile {
    let protection = isWritable ? PROT_READ | PROT_WRITE : PROT_READ
    return unsafe MappedFile(adopting: try map(byteCount, protection), byteCount: byteCount)
  }

  /// Maps the start of the file to be read. The file may be shorter, and grow.
  package func mapForReading(byteCount: Int) throws(FileError) -> MappedBytes {
    unsafe MappedBytes(adopting: try map(byteCount, PROT_READ), byteCount: byteCount)
  }

  private func map(_ byteCount: Int, _ protection: CInt) throws(FileError) -> UnsafeMutableRawPointer {
    var base: UnsafeMutableRawPointer?
    try files.perform(.map, location) {
      unsafe base = mmap(nil, byteCount, protection, MAP_SHARED, descriptor, 0)
      return unsafe base == MAP_FAILED ? -1 : 0
    }
    return unsafe base!
  }

  package func setPermissions(_ permissions: FilePermissions) throws(FileError) {
    try files.perform(.setPermissions, location) { fchmod(descriptor, permissions.rawValue) }
  }

  /// - Parameter user: nil leaves the owner as it is.
  package func setOwner(user: UserID?, group: GroupID?) throws(FileError) {
    try files.perform(.setOwner, location) { fchown(descriptor, user?.rawValue ?? .max, group?.rawValue ?? .max) }
  }

  /// Puts what was written on the medium. After a failure the descriptor must not be synced again: the kernel may have
  /// dropped the pages and would report success.
  package func synchronize(_ level: SyncLevel) throws(FileError) {
    try files.perform(.sync, location) {
      switch level {
      case .barrier: blob_sync_barrier(descriptor)
      case .full: blob_sync_full(descriptor)
      }
    }
  }
}

/// Why a file is not to be shared through a mapping.
package enum MappingHazard: CInt, Sendable {
  /// A network or user-space file system: other hosts would not see what is written.
  case incoherent = 1
  /// The file system writes to new blocks each time. A write to a mapping ends the process when the volume is full.
  case needsRoom = 2
}

/// How far a sync goes.
package enum SyncLevel: Sendable {
  /// Data, and the metadata needed to read it, before any later write: fdatasync(2), `F_BARRIERFSYNC`.
  case barrier
  /// Data and metadata, on the medium: fsync(2), `F_FULLFSYNC`.
  case full
}

// MARK: - Transfers

extension OpenFile {
  /// Fills the buffer from `offset`.
  ///
  /// - Returns: the number of bytes read, fewer than the buffer holds only at the end of the file.
  package func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) throws(FileError) -> Int {
    try files.transfer(.read, location, count: buffer.count) { done, limit in
      unsafe pread(descriptor, buffer.baseAddress! + done, limit, off_t(offset) + off_t(done))
    }
  }

  /// Reads the start of the file into two buffers in order, by one call.
  ///
  /// - Returns: the number of bytes read into both, fewer than they hold only at the end of the file.
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

  /// Writes two spans in order at the start of the file, by one call.
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

  /// Tells a file of the kernel's what to report, in one call.
  ///
  /// System call: write(2). Files below /proc take no offset: to them pwrite(2) is an illegal seek.
  package func writeTrigger(_ trigger: String) throws(FileError) {
    let bytes = Array(trigger.utf8)
    try files.perform(.writeTrigger, location) {
      unsafe bytes.withUnsafeBytes { unsafe platformWrite(descriptor, $0.baseAddress, $0.count) }
    }
  }
}

/// The call, which the methods above hide by their name.
private func platformWrite(_ descriptor: CInt, _ bytes: UnsafeRawPointer?, _ count: Int) -> Int {
  unsafe write(descriptor, bytes, count)
}

/// Describes what remains of two buffers, `limit` bytes of it, for a vectored call.
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
