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

/// The one door to the file system: every call goes through `perform`.
///
/// There, interrupted calls are retried, errno becomes a typed error, and a test may step in. The location of a call is
/// only computed when it is asked for.
package final class Files: Sendable {
  private let intercept: Interceptor?
  /// Whether there is an interceptor: cheaper to ask than the closure, which would be retained.
  private let isIntercepted: Bool
  private let clock: Clock
  /// Whether there is a clock: cheaper to ask, as above.
  private let hasClock: Bool
  /// The budget of files that may stay open from one operation to the next.
  package let budget: OpenFileBudget
  /// `AccessTime.tellsOwner`, but for tests.
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

  /// Milliseconds on a clock that only goes forward, as `SystemClock.coarseMilliseconds`.
  package var moment: Int64 { hasClock ? momentOfClock() : SystemClock.coarseMilliseconds() }

  @inline(never)
  private func momentOfClock() -> Int64 { clock() }

  /// Kept out of the callers, whose fast path is then the system call alone.
  @inline(never)
  private func interception(of call: SystemCall, _ location: Location) -> Interception? {
    // It stands for the kernel, and for other processes, which hold none of this thread's locks.
    intercept.flatMap { intercept in LockOrder.outside { intercept(call, location) } }
  }

  /// Whether the kernel, or a filter before it, has refused `openat2`.
  ///
  /// From then on paths are walked.
  var refusesOpenBeneath: Bool { openBeneathRefused.load(ordering: .relaxed) }

  func noteOpenBeneathRefused() { openBeneathRefused.store(true, ordering: .relaxed) }

  /// Whether files without a name, or naming them later, were refused.
  ///
  /// The kernel, the file system or a filter may do so. From then on files get a name at once.
  package var refusesUnnamedFiles: Bool { unnamedFilesRefused.load(ordering: .relaxed) }

  func noteUnnamedFilesRefused() { unnamedFilesRefused.store(true, ordering: .relaxed) }

  /// Whether a file was met whose time of access is not ours to leave alone.
  var refusesToSpareAccessTime: Bool { accessTimeRefused.load(ordering: .relaxed) }

  func noteAccessTimeRefused() { accessTimeRefused.store(true, ordering: .relaxed) }

  /// Whether the opening by `sparingAccessTime` alone shows that the file is the caller's.
  var hasOpenedOwnFile: Bool { accessTimeTellsOwner && !refusesToSpareAccessTime }

  /// Makes a call that answers -1 and sets errno when it fails; EINTR is retried.
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

  /// Reads or writes `count` bytes in as many calls as it takes.
  ///
  /// - Parameters:
  ///   - endsShort: whether one call must do, with however few bytes.
  ///   - body: transfers up to `limit` bytes, `done` of the `count` being behind it.
  /// - Returns: how many bytes were transferred: fewer than `count` only at the end of a file that is read, or by one
  ///   call.
  @inline(__always)
  func transfer(
    _ call: SystemCall, _ location: @autoclosure () -> Location, count: Int, endsShort: Bool = false,
    _ body: (_ done: Int, _ limit: Int) -> Int
  ) throws(FileError) -> Int {
    var done = 0
    while done < count {
      // Darwin refuses more than 2 GiB at once.
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
          // A read has met the end of the file. A write that moves nothing and reports no error would never end.
          if call == .read || call == .readCached { return done }
          failure = .ioError
        }
      }
      let errno = failure ?? Errno(rawValue: errno)
      guard errno == .interrupted else { throw FileError(call, location(), errno) }
    }
    return done
  }

  /// Asks for the status of an open file.
  func status(of descriptor: CInt, _ location: @autoclosure () -> Location) throws(FileError) -> Stat {
    var raw = CInterop.Stat()
    try perform(.status, location()) { unsafe blob_status(descriptor, &raw) }
    return Stat(rawValue: raw)
  }

  /// The status of the regular file behind the caller's descriptor; nil for other types.
  ///
  /// Nothing of the cache is read through it.
  package static func statusOfRegularFile(_ descriptor: FileDescriptor) -> Stat? {
    var raw = CInterop.Stat()
    let isRegular = unsafe blob_status(descriptor.rawValue, &raw) == 0 && Stat(rawValue: raw).type == .regular
    return isRegular ? Stat(rawValue: raw) : nil
  }

  /// Closes a descriptor. An interrupted close has closed it on every platform we run on, so it is never retried.
  func close(_ descriptor: CInt, _ location: @autoclosure () -> Location) throws(FileError) {
    let interception = isIntercepted ? interception(of: .close, location()) : nil
    let result = LockableDescriptor.close(descriptor)
    if case .fail(let errno)? = interception, errno != .interrupted { throw FileError(.close, location(), errno) }
    if result == -1, errno != EINTR { throw FileError(.close, location(), Errno(rawValue: errno)) }
  }
}

extension Files {
  /// The text of a small file, as the kernel generates some; nil if missing.
  ///
  /// It is nil also for anything but a regular file.
  ///
  /// - Parameter limit: bytes; the rest is cut off.
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

  /// Opens a file of the kernel's, to write a trigger into it and watch it.
  ///
  /// It is nil if there is no such regular file.
  package func watchedFile(at path: FilePath, writing trigger: String) throws(FileError) -> WatchedFile? {
    guard let name = path.lastComponent?.string,
      let directory = try Directory(at: path.removingLastComponent(), files: self),
      case .regular(let file, _) = try directory.openFile(name, for: .readWrite)
    else { return nil }
    try file.writeTrigger(trigger)
    return WatchedFile(file)
  }
}

/// How many files a process keeps open only to spare itself opening them again. Those that it may have open are its own, so
/// they are few beside them, however many caches it has.
package final class OpenFileBudget: Sendable {
  private let limit: Int
  private let taken = Atomic(0)

  package init(limit: Int) { self.limit = limit }

  package static let ofProcess = OpenFileBudget(limit: share(of: CurrentProcess.openFileLimit))

  /// A 64th of the open files that a process may have, and at most 256.
  ///
  /// - Parameter openFileLimit: nil without a limit.
  package static func share(of openFileLimit: Int?) -> Int { min(256, (openFileLimit ?? .max) / 64) }

  /// - Returns: false if there are as many as may be.
  package func take() -> Bool {
    if taken.wrappingAdd(1, ordering: .relaxed).newValue <= limit { return true }
    giveBack(1)
    return false
  }

  package func giveBack(_ count: Int) { taken.wrappingSubtract(count, ordering: .relaxed) }
}
