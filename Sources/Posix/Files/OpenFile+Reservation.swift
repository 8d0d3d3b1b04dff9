internal import CPosix
internal import SystemPackage

extension OpenFile {
  /// Reserves blocks for the first bytes if this is supported, so that writes find space; the length is unchanged.
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

  /// Allocates the blocks of a range, or returns `false` if this is not supported.
  ///
  /// Writes to the range then never find the volume full. Existing bytes are preserved. The file grows to the end of
  /// the range, except on Darwin, where the blocks are allocated after its end.
  package borrowing func allocate(_ range: Range<Int64>) throws(FileError) -> Bool {
    try change(range, by: .allocateRange, blob_allocate_range)
  }

  /// Allocates blocks for a range that no other file shares, or returns `false` if this is not supported.
  ///
  /// A write through a mapping to such a range then never finds the volume full, which would raise a signal. The range
  /// may be a hole, or share its blocks with a copy of the file. Existing bytes are preserved.
  package borrowing func own(_ range: Range<Int64>) throws(FileError) -> Bool {
    try change(range, by: .allocateRange, blob_own_range)
  }

  /// Returns whether an offset is in a hole, or `false` if the file system does not report holes.
  ///
  /// A block that was allocated and not written may count as a hole. System call: `lseek(2)`.
  package borrowing func isHole(at offset: Int64) throws(FileError) -> Bool {
    var answer: CInt = 0
    try perform(.findData) {
      answer = blob_is_hole($0, offset)
      return 0
    }
    return answer != 0
  }

  /// Deallocates the blocks of a range, which then reads as zeros, or returns `false` if this is not supported.
  ///
  /// - Parameter range: A range of whole pages, because some systems deallocate only these.
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
