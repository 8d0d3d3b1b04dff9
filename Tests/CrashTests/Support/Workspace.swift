import Foundation

/// A directory for one run's files, removed with the last reference to it.
///
/// In memory where that can be had: what a kill leaves does not depend on the medium, and syncs of a thousand runs need
/// not wait for one. The long form uses the directory for temporary files, on whatever that lies.
final class Workspace: Sendable {
  let root: URL

  init() throws {
    let memory = "/dev/shm"
    let usesMemory = !FaultTools.isLong && FileManager.default.isWritableFile(atPath: memory)
    let parent = usesMemory ? URL(filePath: memory) : FileManager.default.temporaryDirectory.resolvingSymlinksInPath()
    root = parent.appending(path: "blobcache-fault-\(UUID().uuidString)")
    try FileManager.default.createDirectory(
      at: root, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
  }

  deinit {
    // A leftover in a directory of temporary files does no harm.
    try? FileManager.default.removeItem(at: root)
  }

  func path(_ name: String) -> String { root.appending(path: name).path }
}
