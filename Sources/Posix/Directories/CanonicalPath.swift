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
  /// The path from the root of the file system.
  ///
  /// A later change of the working directory does not move it. Links, dots and double dots stay as they are. An empty
  /// path is the working directory.
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

  /// The absolute path without links, dots or doubled slashes, as far as it exists.
  ///
  /// Links are followed before the double dots after them, as the kernel does. The missing rest is added as written,
  /// for directories that a store would make. Two paths to one directory have one canonical path, except for mounts and
  /// for later changes of links.
  ///
  /// System calls: getcwd(3) for a relative path, realpath(3), and one more of it for each missing component.
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

  /// Whether `..` after it is the directory in which its name lies.
  ///
  /// That is so for a directory, and for a missing one that would be made.
  private func leadsUp(_ path: FilePath) -> Bool {
    // Behind dots that had to stay, links may come to lie.
    guard !path.components.contains(where: { $0.kind == .parentDirectory }) else { return false }
    var status = CInterop.Stat()
    let isThere = unsafe path.withPlatformString { unsafe lstat($0, &status) } == 0
    return isThere ? Stat(rawValue: status).type == .directory : errno == ENOENT
  }
}
