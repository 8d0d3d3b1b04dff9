package import BlobRecord
internal import SystemPackage

extension BlobStore {
  /// Returns the number that changes whenever the payload stored under a key may change, or `nil` if none exists yet.
  ///
  /// It is odd while a change is in progress, and after a process died during a change until the next change. A blob
  /// that was read from disk after an even generation is current as long as the generation stays the same. Keys may
  /// share a generation. Without one, nothing may be answered from memory.
  ///
  /// Once a second, a call checks whether the control file was deleted. Until then, the generations of a deleted file
  /// miss the changes of other processes. Other calls make no system call once the file is open.
  ///
  /// - Throws: `invalidKey`; `fileSystem` if the control file cannot be opened.
  package func generation(of key: BlobKey) throws(BlobStoreError) -> UInt64? {
    try generation(ofDigest: try digest(of: key, for: "load"))
  }

  package func generation(ofDigest digest: UInt64) throws(BlobStoreError) -> UInt64? {
    try withErrorContext("load") {
      guard let open = try core.root.opened() else { return nil }
      return try core.controlFiles.controlFile(of: open, makesIt: false)?.generation(of: digest)
    }
  }

  /// Returns whether a cache in front of the store may answer for a digest, or `nil` without a control file.
  ///
  /// The given hit is counted if the generation is current. It takes no lock except as `generation(ofDigest:)` does,
  /// and makes no system call unless a new file of uses exists.
  package func answers(
    _ hit: MemoryHit?, ofDigest digest: UInt64, if isCurrent: (UInt64) -> Bool
  ) throws(BlobStoreError) -> Bool? {
    try withErrorContext("load") {
      guard let open = try core.root.opened(),
        let control = try core.controlFiles.controlFile(of: open, makesIt: false),
        let generation = control.generation(of: digest)
      else { return nil }
      guard isCurrent(generation) else { return false }
      if let hit {
        core.uses.count(
          .hitInMemory(byteCount: hit.byteCount), of: digest, isUse: hit.isUse, at: hit.time, in: control, open)
      }
      return true
    }
  }

  /// Returns the generations of the directory that was opened last, or the last value if it is still valid.
  package func generationPlace(after last: GenerationPlace?) -> GenerationPlace {
    let control = core.root.lastOpened?.openedControlFile
    if let last, last.control === control { return last }
    return GenerationPlace(core, control)
  }

  /// Returns the generation of a key and the number of wipes, which show whether the key was changed.
  package func history(of key: BlobKey) throws(BlobStoreError) -> KeyHistory? {
    try withErrorContext("load", key) {
      let digest = try core.path(for: key).digest
      guard let open = try core.root.opened(),
        let control = try core.controlFiles.controlFile(of: open, makesIt: false),
        control.isMapped
      else { return nil }
      return control.history(of: digest)
    }
  }

  /// Returns the history of a key, in which changes by any process are visible from now on. Creates missing files.
  package func firstHistory(of key: BlobKey) throws(BlobStoreError) -> KeyHistory {
    try withErrorContext("load", key) {
      let path = try core.path(for: key)
      _ = try publisher.madeRootOfLocks()
      return try Records(core).hold(path.digest).history
    }
  }

  /// Returns the path of a key's record. An error names the given operation.
  package func path(of key: BlobKey, for operation: String) throws(BlobStoreError) -> RecordPath {
    try withErrorContext(operation, key) { try core.path(for: key) }
  }

  /// Returns the digest of a key's file name, by which its generation is found. An error names the given operation.
  package func digest(of key: BlobKey, for operation: String) throws(BlobStoreError) -> UInt64 {
    try withErrorContext(operation, key) { try core.path(for: key).digest }
  }
}
