package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

extension Files {
  /// Returns the path from the root of the file system, which does not depend on the working directory.
  ///
  /// Links, dots and double dots are preserved. An empty path is the working directory.
  ///
  /// System calls: getcwd(3), for a relative path.
  package func absolute(_ path: FilePath) throws(FileError) -> FilePath {
    guard !path.isAbsolute else { return path }
    var current = FilePath()
    try perform(.workingDirectory, Location(path)) {
      guard let name = unsafe getcwd(nil, 0) else { return -1 }
      defer { unsafe free(name) }
      current = unsafe FilePath(platformString: name)
      return 0
    }
    return current.pushing(path)
  }

  /// Returns the absolute path without links, dots or doubled slashes, as far as it exists.
  ///
  /// As in the kernel, links are followed before the double dots after them. Missing components are appended as
  /// written, for directories that a store would make. Two paths to one directory have one canonical path, except for
  /// mounts and for later changes of links.
  ///
  /// System calls: getcwd(3) for a relative path, realpath(3), and another realpath(3) for each missing component.
  package func canonical(_ path: FilePath) throws(FileError) -> FilePath {
    let path = try absolute(path)
    if let real = resolved(path) { return real }
    var real = FilePath(root: path.root)
    for component in path.components {
      switch component.kind {
      case .currentDirectory: break
      case .parentDirectory where leadsUp(real): real.removeLastComponent()
      // Kept, so that each use reports the current error: a dangling link may later lead to a directory.
      case .parentDirectory: real.append(component)
      case .regular:
        let next = real.appending(component)
        real = resolved(next) ?? next
      }
    }
    return real
  }

  private func resolved(_ path: FilePath) -> FilePath? {
    unsafe path.withPlatformString { name in
      guard let real = unsafe realpath(name, nil) else { return nil }
      defer { unsafe free(real) }
      return unsafe FilePath(platformString: real)
    }
  }

  /// Checks whether `..` leads to the parent, as for a directory, or for a missing one, which a store would make.
  private func leadsUp(_ path: FilePath) -> Bool {
    // After double dots that were kept, links may appear later.
    guard !path.components.contains(where: { $0.kind == .parentDirectory }) else { return false }
    var status = CInterop.Stat()
    let isThere = unsafe path.withPlatformString { unsafe lstat($0, &status) } == 0
    return isThere ? Stat(rawValue: status).type == .directory : errno == ENOENT
  }
}
