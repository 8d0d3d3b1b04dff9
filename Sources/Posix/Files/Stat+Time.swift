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
  package var modifiedSeconds: Int64 { Int64(st_mtim.tv_sec) }

  /// The time of the last change to the file or its metadata in Unix nanoseconds, clamped to `Int64`.
  package var changeNanoseconds: Int64 {
    #if canImport(Darwin)
      Self.nanoseconds(rawValue.st_ctimespec)
    #else
      Self.nanoseconds(rawValue.st_ctim)
    #endif
  }

  /// The modification time in Unix nanoseconds, clamped to `Int64`.
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

  /// Checks whether a change from now on gives a file a different time.
  ///
  /// File systems use the time of the last tick, at most ten milliseconds ago, or multiples of one or two seconds.
  package static func isPast(_ nanoseconds: Int64, at systemTime: Int64) -> Bool {
    let (age, overflow) = systemTime.subtractingReportingOverflow(nanoseconds)
    return !overflow && age > (isExact(nanoseconds) ? 100_000_000 : 2_500_000_000)
  }

  /// The same as `isPast`, even if the clock is set back.
  ///
  /// A change would have to happen in the very same nanosecond; a time in whole seconds can recur.
  package static func isSurelyPast(_ nanoseconds: Int64, at systemTime: Int64) -> Bool {
    isExact(nanoseconds) && isPast(nanoseconds, at: systemTime)
  }

  /// The same as `isSurelyPast`, by the clock that the kernel uses for the times of files.
  ///
  /// Ticks may be late, so the clock has to be ahead only by the precision that the file system drops: less than a
  /// microsecond if the time is not in whole microseconds, otherwise at most ten milliseconds (exFAT).
  package static func isSurelyPast(_ nanoseconds: Int64, atTick tick: Int64) -> Bool {
    let (age, overflow) = tick.subtractingReportingOverflow(nanoseconds)
    return !overflow && isExact(nanoseconds) && age > (nanoseconds.isMultiple(of: 1000) ? 10_000_000 : 1000)
  }

  private static func isExact(_ nanoseconds: Int64) -> Bool { !nanoseconds.isMultiple(of: 1_000_000_000) }

  package var inodeNumber: UInt64 { UInt64(rawValue.st_ino) }
}

/// Opens without updates of a file's access time.
///
/// If access times are recorded, the first read after each change makes the file system write the inode. That costs a
/// quarter of the time of a load, and a write to the disk.
package enum AccessTime {
  static let flags = blob_no_access_time()

  /// A Boolean value that indicates whether an open with `O_NOATIME` proves that this process's user owns the file.
  ///
  /// The owner then needs no `fstat`. The value is determined once, when the first store is created. It does not hold
  /// if threads differ in users or capabilities, or if the process gains capabilities in a user namespace.
  package static let tellsOwner = blob_owns_what_it_spares() == 1
}

extension Files {
  /// Opens a file with `O_NOATIME` if the kernel allows it.
  ///
  /// The flag is allowed only for the owner of a file and for privileged processes. After the first refusal the flag
  /// is not used again, because other files of that user are likely.
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
