import Foundation

/// A directory for the files of one run, which is removed with its last reference.
///
/// It is stored in memory if possible, because the effect of a kill does not depend on the medium, and the syncs of a
/// thousand runs need not wait for one. The long form uses the temporary directory on any medium.
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
    // A leftover in a temporary directory is harmless.
    try? FileManager.default.removeItem(at: root)
  }

  func path(_ name: String) -> String { root.appending(path: name).path }
}
