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

extension Stat {
  /// When the content was last changed, in Unix seconds.
  package var modifiedSeconds: Int64 { Int64(st_mtim.tv_sec) }

  /// When the file or its metadata last changed, in Unix nanoseconds.
  ///
  /// It is held at the ends of the type.
  package var changeNanoseconds: Int64 {
    #if canImport(Darwin)
      Self.nanoseconds(rawValue.st_ctimespec)
    #else
      Self.nanoseconds(rawValue.st_ctim)
    #endif
  }

  /// When the content last changed, in Unix nanoseconds; held at the type's ends.
  package var modificationNanoseconds: Int64 {
    #if canImport(Darwin)
      Self.nanoseconds(rawValue.st_mtimespec)
    #else
      Self.nanoseconds(rawValue.st_mtim)
    #endif
  }

  private static func nanoseconds(_ time: timespec) -> Int64 {
    let (nanoseconds, overflow) = Int64(time.tv_sec).multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? (time.tv_sec > 0 ? .max : .min) : nanoseconds &+ Int64(time.tv_nsec)
  }

  /// Whether a change made from now on gives a file another time than this one.
  ///
  /// File systems stamp with the time of the last tick, ten milliseconds ago at most, or in whole seconds or two.
  package static func isPast(_ nanoseconds: Int64, at systemTime: Int64) -> Bool {
    let (age, overflow) = systemTime.subtractingReportingOverflow(nanoseconds)
    return !overflow && age > (isExact(nanoseconds) ? 100_000_000 : 2_500_000_000)
  }

  /// As `isPast`, even if the clock is set back.
  ///
  /// It would have to meet the very nanosecond. Whole seconds it does meet, so they are never past.
  package static func isSurelyPast(_ nanoseconds: Int64, at systemTime: Int64) -> Bool {
    isExact(nanoseconds) && isPast(nanoseconds, at: systemTime)
  }

  /// As `isSurelyPast`, by the clock that the kernel stamps files with.
  ///
  /// Its ticks may be late. It suffices if it is ahead by what the file system cuts off. That is less than a microsecond
  /// of a time that is not in whole ones, and of any other ten milliseconds at most (exFAT).
  package static func isSurelyPast(_ nanoseconds: Int64, atTick tick: Int64) -> Bool {
    let (age, overflow) = tick.subtractingReportingOverflow(nanoseconds)
    return !overflow && isExact(nanoseconds) && age > (nanoseconds.isMultiple(of: 1000) ? 10_000_000 : 1000)
  }

  private static func isExact(_ nanoseconds: Int64) -> Bool { !nanoseconds.isMultiple(of: 1_000_000_000) }

  package var inodeNumber: UInt64 { UInt64(rawValue.st_ino) }
}

/// Reads that leave a file's time of access alone.
///
/// Where that time is kept, the first read after each change makes the file system write the inode. That costs a load a
/// quarter of its time, and the disk a write.
package enum AccessTime {
  /// `O_NOATIME` on Linux; nothing elsewhere.
  static let flags = blob_no_access_time()

  /// True if a successful `O_NOATIME` open proves that this process's user owns the file.
  ///
  /// Then no `fstat` is needed for the owner. It is found out once for the process, when the first store is made. It
  /// does not hold for a process whose threads differ in their users or powers, nor for one that gains powers in a user
  /// namespace.
  package static let tellsOwner = blob_owns_what_it_spares() == 1
}

extension Files {
  /// Opens a file so, as far as the kernel allows it.
  ///
  /// Only the owner of a file, or a privileged process, may ask for it. After another user's file it is not asked for
  /// again, because more of them are likely.
  ///
  /// - Parameter open: opens a file with these flags among others.
  @inline(__always)
  func sparingAccessTime(_ open: (_ flags: CInt) throws(FileError) -> CInt) throws(FileError) -> CInt {
    guard !refusesToSpareAccessTime else { return try open(0) }
    do {
      return try open(AccessTime.flags)
    } catch {
      guard error.errno == .notPermitted, AccessTime.flags != 0 else { throw error }
      let opened = try open(0)
      noteAccessTimeRefused()
      return opened
    }
  }
}
