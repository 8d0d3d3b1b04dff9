/// The control file with the generations. Cached blobs retain this object, so a memory hit does not look up the file.
@safe package final class GenerationPlace: Sendable {
  /// `nil` if the directory had no control file.
  let control: ControlFile?
  /// `control` without reference counting, which would take as long as the rest of a memory hit.
  private let uncounted: Unmanaged<ControlFile>?
  private let root: CacheRoot
  private let core: StoreCore

  init(_ core: StoreCore, _ control: ControlFile?) {
    self.control = control
    unsafe uncounted = control.map { unsafe Unmanaged.passUnretained($0) }
    self.core = core
    root = core.root
  }

  package var isKnown: Bool { control?.isMapped ?? false }

  /// Returns a Boolean value that indicates whether a memory cache may return a blob, and counts the hit if so. It
  /// takes no lock and makes no system call; if the result is `false`, `BlobStore.answers` may still allow the hit.
  ///
  /// - Parameter generation: The generation that was current before the blob was read.
  package func answersAtOnce(_ hit: MemoryHit, ofDigest digest: UInt64, in generation: UInt64) -> Bool {
    guard root.wasCheckedLately, let uncounted = unsafe uncounted else { return false }
    // Safe because `control` retains the object.
    return unsafe uncounted._withUnsafeGuaranteedRef { control in
      control.isInForce && control.generation(of: digest) == generation
        && core.uses.countHitInMemory(hit, of: digest, in: control)
    }
  }
}
