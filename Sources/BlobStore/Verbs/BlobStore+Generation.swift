package import BlobRecord
internal import SystemPackage

extension BlobStore {
  /// The number that changes whenever the payload stored under a key may change. It is odd while a change is under way,
  /// and from the death of a process that was changing it until the next change.
  ///
  /// A blob that was read from disk after an even generation is current while the generation stays. Keys may share one,
  /// so a change of one key makes others be read again.
  ///
  /// The control file may have been deleted: this is checked once a second, and until then its generations miss the
  /// changes of other processes. The other calls make no system call, once the file is open.
  ///
  /// - Returns: nil where there are no generations, or none yet: then nothing may be answered from memory.
  /// - Throws: `invalidKey`; `fileSystem` if the control file cannot be opened.
  package func generation(of key: BlobKey) throws(BlobStoreError) -> UInt64? {
    try generation(ofDigest: try digest(of: key, for: "load"))
  }

  /// The generation of a key, by its digest.
  package func generation(ofDigest digest: UInt64) throws(BlobStoreError) -> UInt64? {
    try withErrorContext("load") {
      guard let open = try core.root.opened() else { return nil }
      return try core.controlFiles.controlFile(of: open, makesIt: false)?.generation(of: digest)
    }
  }

  /// Whether a cache in front of the store may answer for a digest; counts the load that it answers.
  ///
  /// - Parameters:
  ///   - hit: is counted if so; nil to count nothing.
  ///   - isCurrent: whether the answer is that of a generation.
  /// - Returns: nil where there are no generations.
  /// - Complexity: no lock beyond those of `generation(ofDigest:)`, and no system call unless there is a new file of uses.
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
        core.count(
          .hitInMemory(byteCount: hit.byteCount), of: digest, isUse: hit.isUse, at: hit.time, in: control, open)
      }
      return true
    }
  }

  /// Where the generations lie of the directory that was opened last.
  ///
  /// - Parameter last: is returned if it is still the place.
  package func generationPlace(after last: GenerationPlace?) -> GenerationPlace {
    let control = core.root.lastOpened?.openedControlFile
    if let last, last.control === control { return last }
    return GenerationPlace(core, control)
  }

  /// The generation of a key and the count of wipes, which tell whether it was changed.
  ///
  /// - Returns: nil where there is no control file yet, or none that counts.
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

  /// The history of a key, with the control file made where it is missing, and the root too. From then on, a change by
  /// any process shows in the history.
  package func firstHistory(of key: BlobKey) throws(BlobStoreError) -> KeyHistory {
    try withErrorContext("load", key) {
      let path = try core.path(for: key)
      _ = try publisher.madeRootOfLocks()
      return try core.hold(path.digest).history
    }
  }

  /// Where a key's record lies.
  ///
  /// - Parameter operation: the caller's verb, which an error names.
  package func path(of key: BlobKey, for operation: String) throws(BlobStoreError) -> RecordPath {
    try withErrorContext(operation, key) { try core.path(for: key) }
  }

  /// The digest of a key's file name, by which generations are found.
  ///
  /// - Parameter operation: the caller's verb, which an error names.
  package func digest(of key: BlobKey, for operation: String) throws(BlobStoreError) -> UInt64 {
    try withErrorContext(operation, key) { try core.path(for: key).digest }
  }
}
