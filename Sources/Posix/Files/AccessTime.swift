internal import CPosix
internal import SystemPackage

/// Reading leaves a file's time of access alone: where it is kept, the first read after each change makes the file system
/// write the file's inode too, which costs a load a quarter of its time and the disk a write.
package enum AccessTime {
  /// `O_NOATIME` on Linux; nothing elsewhere.
  static let flags = blob_no_access_time()

  /// Whether who may leave the time of access alone is the file's owner, in this process: then the status of what was opened
  /// so need not be asked for its owner. Found out when the first store is made, for all of the process: one whose threads
  /// differ in their users or powers, or that gains powers by entering a user namespace, is none that this can be said of.
  package static let tellsOwner = blob_owns_what_it_spares() == 1
}

extension Files {
  /// Opens a file so, as far as we may: only who owns a file, or is privileged, may ask for it. Who meets another's is
  /// likely to meet more of them, and asks no more.
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
