package import SystemPackage

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
