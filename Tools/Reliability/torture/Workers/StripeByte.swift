internal import CPosix

/// The byte of a control file that a change of a key locks: Spec/ControlFile.md, done by hand.
struct StripeByte {
  private let file: CInt
  private let offset: Int64

  /// - Returns: nil without a file.
  init?(of digest: UInt64, in file: CInt) {
    guard file >= 0 else { return nil }
    self.file = file
    offset = Int64(digest % 4096)
  }

  func tryLock() -> Bool { blob_lock_bytes(file, offset, 1, 1) == 0 }

  func unlock() { _ = blob_lock_bytes(file, offset, 1, 0) }
}
