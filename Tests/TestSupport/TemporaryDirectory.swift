public import Foundation
public import SystemPackage

/// A new directory that is removed with its content when the last reference to it is released.
public final class TemporaryDirectory: Sendable {
  public let path: FilePath

  /// - Parameter inMemory: A Boolean value that indicates whether an in-memory file system is used if one exists, for
  ///   tests with very many files that do not depend on the medium.
  public init(inMemory: Bool = false) throws {
    let memory = URL(filePath: "/dev/shm")
    let isInMemory = inMemory && FileManager.default.isWritableFile(atPath: memory.path)
    let url = (isInMemory ? memory : FileManager.default.temporaryDirectory).appending(
      path: "blobcache-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    // Stores use this directory as their root and derive the permissions of their files from it.
    try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: url.path)
    path = FilePath(url.path)
  }

  deinit {
    // A remaining directory does no harm, because it is temporary.
    try? FileManager.default.removeItem(atPath: path.string)
  }

  public func url(_ name: String) -> URL {
    URL(filePath: path.string).appending(path: name)
  }

  /// Returns the sorted names in a subdirectory, including hidden ones.
  public func names(in name: String = "") throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: url(name).path).sorted()
  }
}
