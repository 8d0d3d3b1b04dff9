internal import Synchronization

extension ControlFile {
  /// The number that changes whenever the payload of a key with this digest may change. It is odd while one is
  /// changing, and after a process has died changing it. nil where there are no generations.
  func generation(of digest: UInt64) -> UInt64? {
    guard isReadable else { return nil }
    let changes = file.withWord(at: ControlLayout.generationOffset(of: digest), as: UInt32.self) {
      $0.load(ordering: .acquiring)
    }
    return generationBase &+ UInt64(changes)
  }

  /// A generation that is odd because a change is in progress.
  struct OddGeneration {
    fileprivate let offset: Int
    fileprivate let value: UInt32
  }

  /// Makes a key's generation odd, for a change of its payload. Under the key's hold, which keeps others off it too.
  ///
  /// - Returns: `nil` where there are no generations.
  func beginChange(of digest: UInt64) -> OddGeneration? {
    guard isMapped else { return nil }
    let offset = ControlLayout.generationOffset(of: digest)
    return file.withWord(at: offset, as: UInt32.self) { generation in
      let before = generation.load(ordering: .relaxed)
      // Odd already, if a process died here: it stays odd, and changes all the same.
      let step: UInt32 = before % 2 == 0 ? 1 : 2
      // A reader that sees the change's effect on disk must see this too; a system call lies between.
      let odd = generation.wrappingAdd(step, ordering: .sequentiallyConsistent).newValue
      return OddGeneration(offset: offset, value: odd)
    }
  }

  /// Makes the generation even again, and another than before. It never decreases, because a number that comes back would make
  /// a blob valid that a memory tier has kept since.
  func endChange(_ change: OddGeneration) {
    file.withWord(at: change.offset, as: UInt32.self) { generation in
      let ended = generation.wrappingAdd(1, ordering: .sequentiallyConsistent)
      // Otherwise, two changes of one generation were made at once.
      assert(ended.oldValue == change.value)
    }
  }

  /// The generation once a change has ended.
  func generation(after change: OddGeneration) -> UInt64 { generationBase &+ UInt64(change.value &+ 1) }

  /// The history of the keys with a digest.
  func history(of digest: UInt64) -> KeyHistory {
    KeyHistory(generation: generation(of: digest), wipes: isMapped ? word(at: ControlLayout.wipesOffset) : nil)
  }

  /// Counts the beginning or the end of a wipe.
  func countWipe() {
    guard isMapped else { return }
    counter(ControlLayout.wipesOffset) { _ = $0.wrappingAdd(1, ordering: .sequentiallyConsistent) }
  }
}
