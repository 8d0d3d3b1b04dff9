import SystemPackage

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// Directory functions for names that need not be text.
enum RawDirectory {
  static func names(in path: FilePath) -> [FilePath.Component] {
    guard let handle = path.withPlatformString({ opendir($0) }) else { return [] }
    defer { closedir(handle) }
    var names: [FilePath.Component] = []
    while let entry = readdir(handle) {
      let name = UnsafeRawPointer(entry).advanced(by: MemoryLayout<dirent>.offset(of: \.d_name)!)
        .assumingMemoryBound(to: CInterop.PlatformChar.self)
      if let component = FilePath.Component(platformString: name), component.kind == .regular {
        names.append(component)
      }
    }
    return names
  }

  /// Removes a file or a directory tree. Foundation's function fails for names that are not text.
  static func removeTree(_ path: FilePath) {
    if path.withPlatformString({ unlink($0) }) == 0 { return }
    _ = path.withPlatformString { chmod($0, 0o700) }
    for name in names(in: path) { removeTree(path.appending(name)) }
    _ = path.withPlatformString { rmdir($0) }
  }
}
