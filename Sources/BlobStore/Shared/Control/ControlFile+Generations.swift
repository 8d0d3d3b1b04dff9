internal import Synchronization

extension ControlFile {
  /// Returns the number that changes with each change of the payload of a key with this digest, or `nil` without
  /// generations. It is odd during a change, and after a process has died during one.
  func generation(of digest: UInt64) -> UInt64? {
    guard isReadable else { return nil }
    let changes = file.withWord(at: ControlLayout.generationOffset(of: digest), as: UInt32.self) {
      $0.load(ordering: .acquiring)
    }
    return generationBase &+ UInt64(changes)
  }

  struct OddGeneration {
    fileprivate let offset: Int
    fileprivate let value: UInt32
  }

  /// Makes the generation of a held key odd while its payload is changed. Returns `nil` without generations.
  func beginChange(of digest: UInt64) -> OddGeneration? {
    guard isMapped else { return nil }
    let offset = ControlLayout.generationOffset(of: digest)
    return file.withWord(at: offset, as: UInt32.self) { generation in
      let before = generation.load(ordering: .relaxed)
      // If a process died during a change, the generation is already odd. It stays odd, but changes.
      let step: UInt32 = before % 2 == 0 ? 1 : 2
      // A reader that sees the change's effect on disk must see this too. A system call separates the two.
      let odd = generation.wrappingAdd(step, ordering: .sequentiallyConsistent).newValue
      return OddGeneration(offset: offset, value: odd)
    }
  }

  /// Makes the generation even and higher. It never decreases, because a repeated number would make a blob valid
  /// again that a memory tier has kept since.
  func endChange(_ change: OddGeneration) {
    file.withWord(at: change.offset, as: UInt32.self) { generation in
      let ended = generation.wrappingAdd(1, ordering: .sequentiallyConsistent)
      // Otherwise, two changes of one generation were made concurrently.
      assert(ended.oldValue == change.value)
    }
  }

  func generation(after change: OddGeneration) -> UInt64 { generationBase &+ UInt64(change.value &+ 1) }

  func history(of digest: UInt64) -> KeyHistory {
    KeyHistory(generation: generation(of: digest), wipes: isMapped ? word(at: ControlLayout.wipesOffset) : nil)
  }

  func countWipe() {
    guard isMapped else { return }
    counter(ControlLayout.wipesOffset) { _ = $0.wrappingAdd(1, ordering: .sequentiallyConsistent) }
  }
}
