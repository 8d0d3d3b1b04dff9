internal import Posix
internal import SystemPackage

// A pack is complete and on the medium before it gets its name.
extension PackFile {
  /// Creates a pack without records. Returns `false` if another process was faster.
  static func make(_ number: Int, in packs: PackDirectory, names: TemporaryNames) throws -> Bool {
    var draft = try SharedFile.draft(format(number), in: packs.subdirectory, packs.ownership, names: names)
    // A durable record requires a durable pack.
    try draft.file.synchronize(.full)
    guard try draft.commitOrLink(as: name(number)) else { return false }
    try packs.subdirectory.directory.synchronize()
    return true
  }

  /// Opens a pack and maps its head, or returns `nil` if the pack does not exist.
  ///
  /// System calls: `openat2(2)`, `fstat(2)`, `fstatfs(2)`, `pread(2)` twice, `mmap(2)`.
  ///
  /// - Parameters:
  ///   - identifier: The expected identifier, if known.
  ///   - isMapped: A Boolean value that indicates whether to map the records too, if the system allows that.
  /// - Throws: `damaged` if the head is invalid or belongs to another pack; `foreignFile` if the file belongs to
  ///   another user or cannot be mapped; `laterVersion`.
  static func open(
    _ number: Int, in packs: PackDirectory, identifier: UInt64? = nil, isMapped: Bool = false
  ) throws -> PackFile? {
    let name = name(number)
    switch try packs.subdirectory.directory.openFile(name, for: packs.access) {
    case .absent: return nil
    case .notRegular:
      throw BlobStoreError(
        .foreignFile, "something that is no file lies where a pack belongs",
        path: packs.path.appending(name))
    case .regular(let file, let status):
      let path = file.location.path
      switch try SharedFile.Content(of: file, status, format(number), packs.ownership, for: packs.access) {
      case .locksOnly(let reason, _):
        throw BlobStoreError(.foreignFile, "a pack that this program cannot use: \(reason)", path: path)
      case .later(let version):
        throw BlobStoreError(
          .laterVersion, "version \(version) of a pack is later than this program; use the version that made it",
          path: path)
      case .damaged(let reason): throw BlobStoreError.damagedPack(at: path, reason)
      case .current(let head, _):
        let found = try PackHeader(of: file)
        if let flaw = found.flaw(number: number, identifier: identifier) {
          throw BlobStoreError.damagedPack(at: path, flaw)
        }
        // If there is no address space for such a large mapping, records are read with system calls.
        let content =
          isMapped ? try? file.mapForReading(byteCount: PackLayout.fileOffset(ofChunk: PackLayout.chunkCount)) : nil
        return PackFile(
          number, identifier: found.identifier, FileIdentity(status), file, head: head, content: content)
      }
    }
  }

  private static func format(_ number: Int) -> SharedFile.Format {
    SharedFile.Format(
      name: name(number), title: "a pack", loss: "no packs", magic: PackLayout.magic, version: PackLayout.version,
      byteCount: PackLayout.chunksOffset, mayBeLonger: true, lockedBytes: 0..<1,
      firstWords: { PackHeader(number: number, identifier: .random(in: 0 ... .max)).words })
  }
}

extension BlobStoreError {
  fileprivate static func damagedPack(at path: FilePath, _ reason: String) -> BlobStoreError {
    BlobStoreError(
      .damaged, "this pack cannot be used: \(reason); once it is removed, the cache goes on without its blobs",
      path: path)
  }
}
