public import Foundation
public import SystemPackage

/// A fresh directory that is removed, with all in it, when the last reference to it goes.
public final class TemporaryDirectory: Sendable {
  public let path: FilePath

  /// - Parameter inMemory: whether to take a file system in memory where there is one, for tests that make and remove
  ///   very many files and ask nothing of the medium.
  public init(inMemory: Bool = false) throws {
    let memory = URL(filePath: "/dev/shm")
    let isInMemory = inMemory && FileManager.default.isWritableFile(atPath: memory.path)
    let url = (isInMemory ? memory : FileManager.default.temporaryDirectory).appending(
      path: "blobcache-test-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    // The root is handed to stores, which take its permissions for their files.
    try FileManager.default.setAttributes([.posixPermissions: 0o700], ofItemAtPath: url.path)
    path = FilePath(url.path)
  }

  deinit {
    // A leftover in the temporary directory does no harm.
    try? FileManager.default.removeItem(atPath: path.string)
  }

  public func url(_ name: String) -> URL {
    URL(filePath: path.string).appending(path: name)
  }

  /// Names in a directory below, sorted; hidden ones too.
  public func names(in name: String = "") throws -> [String] {
    try FileManager.default.contentsOfDirectory(atPath: url(name).path).sorted()
  }
}
