/// The file in which generations lie: kept beside blobs, so that a hit in memory looks for it no more.
@safe package final class GenerationPlace: Sendable {
  /// nil where there was none when it was asked for.
  let control: ControlFile?
  /// As `control`, for hits: to count a reference to it takes as long as all that it is asked.
  private let uncounted: Unmanaged<ControlFile>?
  private let root: CacheRoot
  private let core: StoreCore

  init(_ core: StoreCore, _ control: ControlFile?) {
    self.control = control
    unsafe uncounted = control.map { unsafe Unmanaged.passUnretained($0) }
    self.core = core
    root = core.root
  }

  /// Whether generations were found.
  package var isKnown: Bool { control?.isMapped ?? false }

  /// Whether a cache in front of the store may answer for a digest, if that is certain at once; counts the load if so.
  ///
  /// - Parameters:
  ///   - hit: what is counted.
  ///   - generation: the one from before the blob was read.
  /// - Returns: false if the answer is no, or if `BlobStore.answers` has to be asked.
  /// - Complexity: no lock and no system call.
  package func answersAtOnce(_ hit: MemoryHit, ofDigest digest: UInt64, in generation: UInt64) -> Bool {
    guard root.wasCheckedLately, let uncounted = unsafe uncounted else { return false }
    // Safe because `control` keeps the object.
    return unsafe uncounted._withUnsafeGuaranteedRef { control in
      control.isInForce && control.generation(of: digest) == generation
        && core.countHitInMemory(hit, of: digest, in: control)
    }
  }
}
