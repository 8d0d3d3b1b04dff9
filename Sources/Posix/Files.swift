internal import CPosix
internal import Locks
internal import Synchronization
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

/// The gateway to the file system: every system call goes through `perform`.
///
/// It retries interrupted calls, converts errno to a typed error, and lets tests intercept the call. The location of
/// a call is computed only if it is needed.
package final class Files: Sendable {
  private let intercept: Interceptor?
  /// A Boolean value that indicates whether `intercept` is set; cheaper to read than the closure, which is retained.
  private let isIntercepted: Bool
  private let clock: Clock
  private let hasClock: Bool
  package let budget: OpenFileBudget
  private let accessTimeTellsOwner: Bool
  private let openBeneathRefused = Atomic(false)
  private let unnamedFilesRefused = Atomic(false)
  private let accessTimeRefused = Atomic(false)

  package init(
    budget: OpenFileBudget = .ofProcess, accessTimeTellsOwner: Bool = AccessTime.tellsOwner,
    intercepting intercept: Interceptor? = nil, clock: Clock? = nil
  ) {
    self.budget = budget
    self.accessTimeTellsOwner = accessTimeTellsOwner
    self.intercept = intercept
    isIntercepted = intercept != nil
    self.clock = clock ?? SystemClock.coarseMilliseconds
    hasClock = clock != nil
  }

  /// The time in milliseconds on a monotonic clock, as `SystemClock.coarseMilliseconds`.
  package var moment: Int64 { hasClock ? momentOfClock() : SystemClock.coarseMilliseconds() }

  @inline(never)
  private func momentOfClock() -> Int64 { clock() }

  /// Not inlined, so that the fast path of callers contains only the system call.
  @inline(never)
  private func interception(of call: SystemCall, _ location: Location) -> Interception? {
    // The interceptor acts as the kernel or as another process, neither of which holds locks of this thread.
    intercept.flatMap { intercept in LockOrder.outside { intercept(call, location) } }
  }

  /// A Boolean value that indicates whether `openat2` was refused, so that paths are opened component by component.
  var refusesOpenBeneath: Bool { openBeneathRefused.load(ordering: .relaxed) }

  func noteOpenBeneathRefused() { openBeneathRefused.store(true, ordering: .relaxed) }

  /// A Boolean value that indicates whether unnamed files were refused, so that new files are created with a name.
  package var refusesUnnamedFiles: Bool { unnamedFilesRefused.load(ordering: .relaxed) }

  func noteUnnamedFilesRefused() { unnamedFilesRefused.store(true, ordering: .relaxed) }

  /// A Boolean value that indicates whether `O_NOATIME` was refused for a file, because another user owns it.
  var refusesToSpareAccessTime: Bool { accessTimeRefused.load(ordering: .relaxed) }

  func noteAccessTimeRefused() { accessTimeRefused.store(true, ordering: .relaxed) }

  /// A Boolean value that indicates whether an open by `sparingAccessTime` proves that the caller owns the file.
  var hasOpenedOwnFile: Bool { accessTimeTellsOwner && !refusesToSpareAccessTime }

  /// Makes a call that returns -1 and sets errno if it fails; the call is retried after EINTR.
  @inline(__always)
  @discardableResult
  func perform<Result: FixedWidthInteger & SignedInteger>(
    _ call: SystemCall, _ location: @autoclosure () -> Location, _ body: () -> Result
  ) throws(FileError) -> Result {
    while true {
      let failure: Errno
      switch isIntercepted ? interception(of: call, location()) : nil {
      case .fail(let errno): failure = errno
      case .answer(let answer): return Result(answer)
      case .transferAtMost, nil:
        let result = body()
        if result != -1 { return result }
        failure = Errno(rawValue: errno)
      }
      guard failure == .interrupted else { throw FileError(call, location(), failure) }
    }
  }

  /// Reads or writes `count` bytes with as many calls as needed, or with one call if `endsShort` is set.
  ///
  /// - Parameter body: Transfers up to `limit` bytes after the first `done` bytes.
  /// - Returns: The number of bytes, which is lower only at the end of a file that is read, or after one call.
  @inline(__always)
  func transfer(
    _ call: SystemCall, _ location: @autoclosure () -> Location, count: Int, endsShort: Bool = false,
    _ body: (_ done: Int, _ limit: Int) -> Int
  ) throws(FileError) -> Int {
    var done = 0
    while done < count {
      // Darwin refuses more than 2 GiB per call.
      var limit = min(count - done, 1 << 30)
      var failure: Errno?
      if isIntercepted {
        switch interception(of: call, location()) {
        case .fail(let errno): failure = errno
        case .transferAtMost(let bytes): limit = min(limit, max(bytes, 0))
        case .answer, nil: break
        }
      }
      if failure == nil {
        let moved = body(done, limit)
        if moved > 0 {
          done += moved
          if endsShort { return done }
          continue
        }
        if moved == 0 {
          // A read has reached the end of the file. A write that transfers nothing without an error would never end.
          if call == .read || call == .readCached { return done }
          failure = .ioError
        }
      }
      let errno = failure ?? Errno(rawValue: errno)
      guard errno == .interrupted else { throw FileError(call, location(), errno) }
    }
    return done
  }

  func status(of descriptor: CInt, _ location: @autoclosure () -> Location) throws(FileError) -> Stat {
    var raw = CInterop.Stat()
    try perform(.status, location()) { unsafe blob_status(descriptor, &raw) }
    return Stat(rawValue: raw)
  }

  /// Returns the status of the regular file of a caller's descriptor, or `nil`; no cache data is read through it.
  package static func statusOfRegularFile(_ descriptor: FileDescriptor) -> Stat? {
    var raw = CInterop.Stat()
    let isRegular = unsafe blob_status(descriptor.rawValue, &raw) == 0 && Stat(rawValue: raw).type == .regular
    return isRegular ? Stat(rawValue: raw) : nil
  }

  /// Closes a descriptor without a retry, because an interrupted close has closed it on every supported platform.
  func close(_ descriptor: CInt, _ location: @autoclosure () -> Location) throws(FileError) {
    let interception = isIntercepted ? interception(of: .close, location()) : nil
    let result = LockableDescriptor.close(descriptor)
    if case .fail(let errno)? = interception, errno != .interrupted { throw FileError(.close, location(), errno) }
    if result == -1, errno != EINTR { throw FileError(.close, location(), Errno(rawValue: errno)) }
  }
}

extension Files {
  /// Returns up to `limit` bytes of a small file as text, or `nil` if no regular file exists at the path.
  package func text(of path: FilePath, limit: Int = 1 << 16) throws(FileError) -> String? {
    guard let name = path.lastComponent?.string,
      let directory = try Directory(at: path.removingLastComponent(), files: self),
      case .regular(let file, _) = try directory.openFile(name, for: .read)
    else { return nil }
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: limit, alignment: 1)
    defer { unsafe buffer.deallocate() }
    let count = try unsafe file.read(into: buffer, at: 0)
    return unsafe String(decoding: buffer[..<count], as: UTF8.self)
  }

  /// Opens a file of the kernel to write a trigger to it and watch it, or returns `nil` if no such file exists.
  package func watchedFile(at path: FilePath, writing trigger: String) throws(FileError) -> WatchedFile? {
    guard let name = path.lastComponent?.string,
      let directory = try Directory(at: path.removingLastComponent(), files: self),
      case .regular(let file, _) = try directory.openFile(name, for: .readWrite)
    else { return nil }
    try file.writeTrigger(trigger)
    return WatchedFile(file)
  }
}

/// The number of files that a process keeps open only to avoid opening them again.
///
/// Open files are a resource of the process, so the limit is small, and all caches of the process share it.
package final class OpenFileBudget: Sendable {
  private let limit: Int
  private let taken = Atomic(0)

  package init(limit: Int) { self.limit = limit }

  package static let ofProcess = OpenFileBudget(limit: share(of: CurrentProcess.openFileLimit))

  /// Returns a 64th of the process's limit for open files, and at most 16.
  package static func share(of openFileLimit: Int?) -> Int { min(16, (openFileLimit ?? .max) / 64) }

  /// - Returns: `false` if the limit is reached.
  package func take() -> Bool {
    if taken.wrappingAdd(1, ordering: .relaxed).newValue <= limit { return true }
    giveBack(1)
    return false
  }

  package func giveBack(_ count: Int) { taken.wrappingSubtract(count, ordering: .relaxed) }
}
