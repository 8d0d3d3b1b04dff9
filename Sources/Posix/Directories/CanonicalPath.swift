package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

extension Files {
  /// The path from the file system's root on: no later change of the working directory moves where it leads.
  ///
  /// Links, dots and double dots stay as they are. An empty path is the working directory.
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

  /// The absolute path without links, dots or doubled slashes, as far as there is something at it.
  ///
  /// Links are followed before the double dots that come after them, as the kernel does. What is missing is added as it was
  /// written, as the directories that a store would make. Two paths to one directory have one canonical path, but for mounts
  /// and for links that are made or changed later.
  ///
  /// System calls: getcwd(3) for a relative path, realpath(3), and where something is missing, once for each component besides.
  package func canonical(_ path: FilePath) throws(FileError) -> FilePath {
    let path = try absolute(path)
    if let real = resolved(path) { return real }
    var real = FilePath(root: path.root)
    for component in path.components {
      switch component.kind {
      case .currentDirectory: break
      case .parentDirectory where leadsUp(real): real.removeLastComponent()
      // The system says what is wrong with it, each time anew: a link that leads nowhere may lead somewhere later.
      case .parentDirectory: real.append(component)
      case .regular:
        let next = real.appending(component)
        real = resolved(next) ?? next
      }
    }
    return real
  }

  /// - Returns: nil if there is nothing, or nothing that may be looked at.
  private func resolved(_ path: FilePath) -> FilePath? {
    unsafe path.withPlatformString { name in
      guard let real = unsafe realpath(name, nil) else { return nil }
      defer { unsafe free(real) }
      return unsafe FilePath(platformString: real)
    }
  }

  /// Whether `..` in it is the directory in which its name lies: it is a directory, or is missing and would be made one.
  private func leadsUp(_ path: FilePath) -> Bool {
    // Behind dots that had to stay, links may come to lie.
    guard !path.components.contains(where: { $0.kind == .parentDirectory }) else { return false }
    var status = CInterop.Stat()
    let isThere = unsafe path.withPlatformString { unsafe lstat($0, &status) } == 0
    return isThere ? Stat(rawValue: status).type == .directory : errno == ENOENT
  }
}
