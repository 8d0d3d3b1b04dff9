internal import Posix
package import SystemPackage

/// The destination of a payload: a file that is replaced atomically, or a device, a pipe or an open descriptor.
package struct OutputFile {
  package let path: FilePath

  package init(path: FilePath) { self.path = path }

  var isStandardOutput: Bool { path == "-" || descriptor?.rawValue == FileDescriptor.standardOutput.rawValue }

  /// Appends bytes to the output.
  package typealias Append = (RawSpan) throws -> Void

  /// The descriptor that the path refers to, such as `/dev/stdout`, or `/dev/fd/63` for a shell's `>(…)`.
  private var descriptor: FileDescriptor? {
    switch path.string {
    case "/dev/stdout": return .standardOutput
    case "/dev/stderr": return .standardError
    default:
      for directory in ["/dev/fd", "/proc/self/fd"] where path.removingLastComponent().string == directory {
        return path.lastComponent.flatMap { CInt($0.string) }.map { FileDescriptor(rawValue: $0) }
      }
      return nil
    }
  }

  /// Returns whether the file is created or replaced as a whole. Otherwise it is written in place.
  ///
  /// - Throws: `FileError`, or `CommandFailure` if the path names a link, a directory, a socket or a block device.
  func isReplaced() throws -> Bool {
    guard descriptor == nil else { return false }
    return try withPlace { name, directory in try isReplaced(name, in: directory) }
  }

  /// Writes a payload in pieces.
  ///
  /// - Throws: The errors of `write` and of `isReplaced`.
  package func write(_ write: (Append) throws -> Void) throws {
    if let descriptor { return try write { try append($0, to: descriptor) } }
    try withPlace { name, directory in
      guard try isReplaced(name, in: directory) else { return try append(to: name, in: directory, write) }
      try directory.replaceFile(name) { file in
        var offset: Int64 = 0
        try write { bytes in
          try file.write(bytes, at: offset)
          offset += Int64(bytes.byteCount)
        }
      }
    }
  }

  private func withPlace<Result>(_ body: (String, borrowing Directory) throws -> Result) throws -> Result {
    // A path without a last component, or with one such as `..`, cannot name a file.
    guard let component = path.lastComponent, component.kind == .regular else { throw inTheWay("a directory") }
    let parent = path.removingLastComponent()
    let directoryPath = parent.isEmpty ? "." : parent
    guard let directory = try Directory(at: directoryPath, files: Files()) else {
      throw FileError(.openDirectory, Location(directoryPath), .noSuchFileOrDirectory)
    }
    return try body(component.string, directory)
  }

  private func isReplaced(_ name: String, in directory: borrowing Directory) throws -> Bool {
    switch try directory.status(of: name)?.type {
    case nil, .regular?: true
    case .characterSpecial?, .fifo?: false
    case .symbolicLink?: throw inTheWay("a link")
    case .directory?: throw inTheWay("a directory")
    case .blockSpecial?: throw inTheWay("a block device")
    case .socket?: throw inTheWay("a socket")
    default: throw inTheWay("something else")
    }
  }

  private func append(
    to name: String, in directory: borrowing Directory, _ write: (Append) throws -> Void
  ) throws {
    guard let output = try directory.openOutput(name) else { throw inTheWay("something else") }
    let file = output.release()
    do {
      try write { try append($0, to: file) }
    } catch {
      // Only the error of the write is reported, and not a later one of the close.
      try? file.close()
      throw error
    }
    do {
      try file.close()
    } catch {
      throw CommandFailure("close(2): \(error): \(path)")
    }
  }

  private func append(_ payload: RawSpan, to file: FileDescriptor) throws {
    do {
      _ = try payload.withUnsafeBytes { try file.writeAll($0) }
    } catch {
      throw CommandFailure("write(2): \(error): \(path)")
    }
  }

  private func inTheWay(_ what: String) -> CommandFailure {
    CommandFailure(
      "\(what) is there, and only regular files are replaced: \(path); name another file, or - for standard output")
  }
}
