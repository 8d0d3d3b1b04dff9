internal import BlobStore
public import SystemPackage

extension BlobCache {
  /// The directory of a cache with this name, in the user's directory for caches.
  ///
  /// That is `$XDG_CACHE_HOME`, or `~/.cache` where that is not set or not absolute. On Apple's platforms it is the
  /// user's `Library/Caches`.
  ///
  /// - Parameter name: one or more path components, such as `com.example.app/covers`; none of them `.` or `..`.
  /// - Throws: `noCacheDirectory`.
  public static func directory(named name: String) throws -> FilePath {
    try directory(named: name, environment: ProcessInfo.processInfo.environment)
  }

  package static func directory(named name: String, environment: [String: String]) throws -> FilePath {
    let path = FilePath(name)
    let isPlain = path.components.allSatisfy { $0.kind == .regular } && path.root == nil && !name.utf8.contains(0)
    guard !path.isEmpty, isPlain else {
      throw BlobCacheError(.noCacheDirectory, "\"\(name)\" is no name for a directory of its own")
    }
    return try cachesDirectory(environment).appending(path.components)
  }

  /// Source: XDG Base Directory Specification 0.8: relative paths are to be ignored.
  private static func cachesDirectory(_ environment: [String: String]) throws -> FilePath {
    #if canImport(Darwin)
      return FilePath(URL.cachesDirectory.path(percentEncoded: false))
    #else
      let candidates = [
        environment["XDG_CACHE_HOME"].map { FilePath($0) },
        environment["HOME"].map { FilePath($0).appending(".cache") },
      ]
      guard let path = candidates.compactMap({ $0 }).first(where: { $0.isAbsolute }) else {
        throw BlobCacheError(.noCacheDirectory, "neither XDG_CACHE_HOME nor HOME is set to an absolute path")
      }
      return path
    #endif
  }
}
