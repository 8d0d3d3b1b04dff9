package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

extension Files {
  /// The absolute path without links, dots or doubled slashes, as far as there is something at it; what is missing is
  /// added as it was written. Two paths to one directory have one canonical path, unless links or mounts change.
  ///
  /// System calls: realpath(3), once for each missing component besides.
  package func canonical(_ path: FilePath) -> FilePath {
    var existing = path.lexicallyNormalized()
    // So are "." and "a/..".
    if existing.isEmpty { existing = "." }
    var missing: [FilePath.Component] = []
    while true {
      if let real = resolved(existing) { return real.appending(missing.reversed()) }
      guard let last = existing.lastComponent else { return path.lexicallyNormalized() }
      missing.append(last)
      existing = existing.removingLastComponent()
      if existing.isEmpty { existing = "." }
    }
  }

  /// - Returns: nil if there is nothing, or nothing that may be looked at.
  private func resolved(_ path: FilePath) -> FilePath? {
    unsafe path.withPlatformString { name in
      guard let real = unsafe realpath(name, nil) else { return nil }
      defer { unsafe free(real) }
      return unsafe FilePath(platformString: real)
    }
  }
}
