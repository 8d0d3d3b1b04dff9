internal import Posix
internal import SystemPackage

#if canImport(FoundationEssentials)
  internal import FoundationEssentials
#else
  internal import Foundation
#endif

/// The file for a payload: replaced as a whole, or written to if it is a device or a pipe.
struct OutputFile {
  let path: FilePath

  /// - Throws: `FileError`; `CommandFailure` for files of other types.
  func write(_ payload: Data) throws {
    // A path without a last name, or with one that stands for a directory, names no file.
    guard let component = path.lastComponent, component.kind == .regular else { throw inTheWay("a directory") }
    let parent = path.removingLastComponent()
    let directoryPath = parent.isEmpty ? "." : parent
    guard let directory = try Directory(at: directoryPath, files: Files()) else {
      throw FileError(.openDirectory, Location(directoryPath), .noSuchFileOrDirectory)
    }
    switch try directory.status(of: component.string)?.type {
    case nil, .regular?: try directory.replaceFile(component.string, with: payload.bytes)
    case .characterSpecial?, .fifo?: try append(payload, to: component.string, in: directory)
    case .symbolicLink?: throw inTheWay("a link")
    case .directory?: throw inTheWay("a directory")
    case .blockSpecial?: throw inTheWay("a block device")
    case .socket?: throw inTheWay("a socket")
    default: throw inTheWay("something else")
    }
  }

  private func append(_ payload: Data, to name: String, in directory: borrowing Directory) throws {
    guard let output = try directory.openOutput(name) else { throw inTheWay("something else") }
    do {
      let file = output.release()
      try file.closeAfter { _ = try file.writeAll(payload) }
    } catch {
      throw CommandFailure("write(2): \(error): \(path)")
    }
  }

  private func inTheWay(_ what: String) -> CommandFailure {
    CommandFailure("\(what) is there, and only regular files are replaced: \(path)")
  }
}
