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
}
