internal import CPosix
internal import SystemPackage

extension OpenFile {
  /// Sets blocks aside for the file's first bytes, so that writes to them find room. The file's length stays.
  ///
  /// Where the system or the file system cannot, nothing is set aside.
  package borrowing func reserve(byteCount: Int64) throws(FileError) {
    do {
      try perform(.reserve) { blob_reserve($0, byteCount) }
    } catch {
      switch error.errno {
      case .notSupported, .invalidArgument, .noFunction: return
      default: throw error
      }
    }
  }

  /// Gives a range of the file its blocks, and the file the length to reach its end. Bytes that were there stay.
  ///
  /// Then no write to the range finds the volume full. On Darwin the blocks lie behind the file's end, and the length
  /// stays.
  ///
  /// - Returns: false where the system or the file system cannot: nothing is set aside.
  package borrowing func allocate(_ range: Range<Int64>) throws(FileError) -> Bool {
    try change(range, by: .allocateRange, blob_allocate_range)
  }

  /// Gives the blocks of a range back. It reads as zeros then.
  ///
  /// - Parameter range: whole pages, which are what some systems give back.
  /// - Returns: false where the system or the file system cannot: nothing has changed.
  package borrowing func punchHole(_ range: Range<Int64>) throws(FileError) -> Bool {
    try change(range, by: .punchHole, blob_punch_hole)
  }

  private borrowing func change(
    _ range: Range<Int64>, by call: SystemCall, _ body: (CInt, Int64, Int64) -> CInt
  ) throws(FileError) -> Bool {
    do {
      try perform(call) { body($0, range.lowerBound, range.upperBound - range.lowerBound) }
      return true
    } catch {
      switch error.errno {
      case .notSupported, .invalidArgument, .noFunction: return false
      default: throw error
      }
    }
  }
}
