internal import Posix
internal import Synchronization

// The shared state of the packs (Spec/ControlFile.md, "Packs").
extension ControlFile {
  /// A Boolean value that indicates whether this process can find packed records. Without the system's boot
  /// identifier, it trusts no index.
  var leadsToPacks: Bool { isMapped && SystemBoot.identifier != nil }

  /// The number of the index in force, or 0 if no process has found one since the file was created.
  var packIndexNumber: UInt64 {
    // Acquiring, so that the content of the index is visible.
    file.withWord(at: ControlLayout.packIndexOffset, as: UInt64.self) { $0.load(ordering: .acquiring) }
  }

  func setPackIndexNumber(_ number: UInt64) {
    // Ordered with the exchanges of entries: one that does not see this number precedes a later read of the index.
    file.withWord(at: ControlLayout.packIndexOffset, as: UInt64.self) {
      $0.store(number, ordering: .sequentiallyConsistent)
    }
  }

  var packSequence: UInt64 {
    file.withWord(at: ControlLayout.packSequenceOffset, as: UInt64.self) { $0.load(ordering: .relaxed) }
  }

  /// Returns a new highest sequence. The caller holds the key's stripe, so a later record of the key has a higher one.
  func nextPackSequence() -> UInt64 {
    file.withWord(at: ControlLayout.packSequenceOffset, as: UInt64.self) {
      $0.wrappingAdd(1, ordering: .relaxed).newValue
    }
  }

  /// Prevents sequences up to this one from being issued.
  func raisePackSequence(to sequence: UInt64) {
    file.withWord(at: ControlLayout.packSequenceOffset, as: UInt64.self) { _ = $0.max(sequence, ordering: .relaxed) }
  }
}

// MARK: - Steps

extension ControlFile {
  /// Precedes a step in memory that cannot fail, so that tests can intercept it.
  func willStep(_ step: SystemCall) { try? file.willStep(step) }
}

// MARK: - Intents

extension ControlFile {
  func intent(_ word: ControlLayout.IntentWord, of stripe: Int) -> StripeIntent? {
    let value = file.withWord(at: ControlLayout.intentOffset(word, of: stripe), as: UInt64.self) {
      $0.load(ordering: .acquiring)
    }
    return value == 0 ? nil : StripeIntent(rawValue: value)
  }

  /// Announces a step, or withdraws the announcement. Releasing, so that the compiler does not move it behind the step.
  func setIntent(_ word: ControlLayout.IntentWord, of stripe: Int, to intent: StripeIntent?) {
    file.withWord(at: ControlLayout.intentOffset(word, of: stripe), as: UInt64.self) {
      $0.store(intent?.rawValue ?? 0, ordering: .releasing)
    }
  }

  /// Clears all intents, because a power cut undoes some changes, which must not be completed after it.
  func forgetIntents() {
    for stripe in 0..<ControlLayout.stripeCount {
      for word in [ControlLayout.IntentWord.new, .old] where intent(word, of: stripe) != nil {
        setIntent(word, of: stripe, to: nil)
      }
    }
  }
}

/// An index that is being filled to replace the one in force.
struct GrowingIndex: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt64

  private static let wholeBit: UInt64 = 1 << 63

  init(rawValue: UInt64) { self.rawValue = rawValue }

  init(number: UInt64, isWhole: Bool) {
    assert(number != 0 && number < Self.wholeBit)
    rawValue = isWhole ? number | Self.wholeBit : number
  }

  var number: UInt64 { rawValue & ~Self.wholeBit }

  /// A Boolean value that indicates whether the index is complete. Any process that finds it puts it in force.
  var isWhole: Bool { rawValue & Self.wholeBit != 0 }
}

// The steps and their order follow Spec/Models.md, "Growth". Tests can intercept each step.
extension ControlFile {
  var growingIndex: GrowingIndex? {
    // Acquiring: a thread that reads `nil` after a growth also sees the index that this growth put in force.
    let value = file.withWord(at: ControlLayout.growingIndexOffset, as: UInt64.self) { $0.load(ordering: .acquiring) }
    return value == 0 ? nil : GrowingIndex(rawValue: value)
  }

  /// Makes all changes apply to a growing index too. Returns `false` if another index is growing.
  func beginGrowth(to number: UInt64) -> Bool { exchangeGrowing(nil, GrowingIndex(number: number, isWhole: false)) }

  /// Marks a growing index as complete. Returns `false` if it was abandoned.
  func endGrowth(to number: UInt64) -> Bool {
    exchangeGrowing(GrowingIndex(number: number, isWhole: false), GrowingIndex(number: number, isWhole: true))
  }

  /// Ends a growth that is in progress: puts a complete index in force, and abandons any other.
  func settleGrowth() {
    while let growing = growingIndex {
      if growing.isWhole { putInForce(growing) }
      if exchangeGrowing(growing, nil) { return }
    }
  }

  private func putInForce(_ growing: GrowingIndex) {
    willStep(.growIndex)
    let before = packIndexNumber
    // Read after the number, so if the word is unchanged, the number is not that of a later index.
    guard growingIndex == growing else { return }
    file.withWord(at: ControlLayout.packIndexOffset, as: UInt64.self) {
      _ = $0.compareExchange(expected: before, desired: growing.number, ordering: .sequentiallyConsistent)
    }
  }

  private func exchangeGrowing(_ expected: GrowingIndex?, _ desired: GrowingIndex?) -> Bool {
    willStep(.growIndex)
    return file.withWord(at: ControlLayout.growingIndexOffset, as: UInt64.self) {
      $0.compareExchange(
        expected: expected?.rawValue ?? 0, desired: desired?.rawValue ?? 0, ordering: .sequentiallyConsistent
      ).exchanged
    }
  }
}
