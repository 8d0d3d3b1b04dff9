internal import CPosix
internal import SystemPackage

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
