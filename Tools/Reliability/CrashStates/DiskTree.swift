#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The files and directories after a power cut.
package struct DiskTree: Hashable, Sendable {
  struct File: Hashable, Sendable {
    var path: String
    var content: FileImage
  }

  var directories: [String] = []
  var files: [File] = []

  /// A system call that failed while the tree was built.
  struct CannotBuild: Error {
    let path: String
    let errno: Int32
  }

  /// Creates the directory `top` with the content of the tree.
  package func build(at top: String) throws {
    try makeDirectory(top)
    for directory in directories { try makeDirectory(top + "/" + directory) }
    for file in files {
      let path = top + "/" + file.path
      let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
      guard descriptor >= 0 else { throw CannotBuild(path: path, errno: errno) }
      defer { close(descriptor) }
      guard file.content.write(to: descriptor) else { throw CannotBuild(path: path, errno: errno) }
    }
  }

  private func makeDirectory(_ path: String) throws {
    guard mkdir(path, 0o700) == 0 else { throw CannotBuild(path: path, errno: errno) }
  }
}
