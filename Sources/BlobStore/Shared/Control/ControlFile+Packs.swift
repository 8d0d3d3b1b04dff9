internal import Posix
internal import Synchronization

// What processes share of the packs: Spec/ControlFile.md, "Packs".
extension ControlFile {
  /// Whether this process can find packed records by it. Without the system's boot, it believes no index.
  var leadsToPacks: Bool { isMapped && SystemBoot.identifier != nil }

  /// The number of the index in force; 0 where none was found since the file was made.
  var packIndexNumber: UInt64 {
    // Acquires the index, and all that it says.
    file.withWord(at: ControlLayout.packIndexOffset, as: UInt64.self) { $0.load(ordering: .acquiring) }
  }

  func setPackIndexNumber(_ number: UInt64) {
    // In one order with the exchanges of entries: who does not see it has changed an index before it was read.
    file.withWord(at: ControlLayout.packIndexOffset, as: UInt64.self) {
      $0.store(number, ordering: .sequentiallyConsistent)
    }
  }

  /// The last sequence that was given to a record.
  var packSequence: UInt64 {
    file.withWord(at: ControlLayout.packSequenceOffset, as: UInt64.self) { $0.load(ordering: .relaxed) }
  }

  /// A sequence that is higher than all before. Under the stripe of its record's key, so that a later record has a higher one.
  func nextPackSequence() -> UInt64 {
    file.withWord(at: ControlLayout.packSequenceOffset, as: UInt64.self) {
      $0.wrappingAdd(1, ordering: .relaxed).newValue
    }
  }

  /// No sequence up to this one is given out.
  func raisePackSequence(to sequence: UInt64) {
    file.withWord(at: ControlLayout.packSequenceOffset, as: UInt64.self) { _ = $0.max(sequence, ordering: .relaxed) }
  }
}

// MARK: - Steps

extension ControlFile {
  /// Comes before a step in memory that cannot fail. A test may step in.
  func willStep(_ step: SystemCall) { try? file.willStep(step) }
}

// MARK: - Intents

extension ControlFile {
  /// What the holder of a stripe has announced in one of its two words.
  func intent(_ word: ControlLayout.IntentWord, of stripe: Int) -> StripeIntent? {
    let value = file.withWord(at: ControlLayout.intentOffset(word, of: stripe), as: UInt64.self) {
      $0.load(ordering: .acquiring)
    }
    return value == 0 ? nil : StripeIntent(rawValue: value)
  }

  /// Announces a step, or takes back what was announced. Releasing, so that the compiler leaves it before the step.
  func setIntent(_ word: ControlLayout.IntentWord, of stripe: Int, to intent: StripeIntent?) {
    file.withWord(at: ControlLayout.intentOffset(word, of: stripe), as: UInt64.self) {
      $0.store(intent?.rawValue ?? 0, ordering: .releasing)
    }
  }

  /// Drops all announcements. A power cut undoes some changes, and none of those may be finished after it.
  func forgetIntents() {
    for stripe in 0..<ControlLayout.stripeCount {
      for word in [ControlLayout.IntentWord.new, .old] where intent(word, of: stripe) != nil {
        setIntent(word, of: stripe, to: nil)
      }
    }
  }
}

// MARK: - Stripes without files

extension ControlFile {
  /// Whether no record of a stripe is a file, as far as this library has made them. The caller holds the stripe.
  func hasNoFiles(ofStripe stripe: Int) -> Bool {
    file.withWord(at: ControlLayout.noFilesOffset(stripe), as: UInt64.self) {
      $0.load(ordering: .relaxed) & ControlLayout.noFilesBit(stripe) != 0
    }
  }

  /// - Parameter hasNone: false before a file gets its name.
  func noteFiles(ofStripe stripe: Int, hasNone: Bool) {
    guard hasNoFiles(ofStripe: stripe) != hasNone else { return }
    file.withWord(at: ControlLayout.noFilesOffset(stripe), as: UInt64.self) {
      let bit = ControlLayout.noFilesBit(stripe)
      _ = hasNone ? $0.bitwiseOr(bit, ordering: .releasing) : $0.bitwiseAnd(~bit, ordering: .releasing)
    }
  }

  /// Files are looked for in all stripes from now on.
  func forgetStripesWithoutFiles() {
    for stripe in 0..<ControlLayout.stripeCount { noteFiles(ofStripe: stripe, hasNone: false) }
  }
}

/// An index that is being filled to take the place of the one in force.
struct GrowingIndex: RawRepresentable, Hashable, Sendable {
  let rawValue: UInt64

  private static let wholeBit: UInt64 = 1 << 63

  init(rawValue: UInt64) { self.rawValue = rawValue }

  /// - Parameter number: of the index: below 2^63, and not 0.
  init(number: UInt64, isWhole: Bool) {
    assert(number != 0 && number < Self.wholeBit)
    rawValue = isWhole ? number | Self.wholeBit : number
  }

  var number: UInt64 { rawValue & ~Self.wholeBit }

  /// Whether it has all records. Whoever meets it puts it in force.
  var isWhole: Bool { rawValue & Self.wholeBit != 0 }
}

// The steps and their order are those of Spec/Models.md, "Growth". A test may step in before each.
extension ControlFile {
  /// The index that is being filled; nil if none is.
  var growingIndex: GrowingIndex? {
    // Acquires the index that was put in force before this became nil.
    let value = file.withWord(at: ControlLayout.growingIndexOffset, as: UInt64.self) { $0.load(ordering: .acquiring) }
    return value == 0 ? nil : GrowingIndex(rawValue: value)
  }

  /// From now on, changes are made in an index that is being filled, too.
  ///
  /// - Returns: false if another one is being filled.
  func beginGrowth(to number: UInt64) -> Bool { exchangeGrowing(nil, GrowingIndex(number: number, isWhole: false)) }

  /// An index that is being filled has all records.
  ///
  /// - Returns: false if it was given up.
  func endGrowth(to number: UInt64) -> Bool {
    exchangeGrowing(GrowingIndex(number: number, isWhole: false), GrowingIndex(number: number, isWhole: true))
  }

  /// Ends a growth that is under way: a whole index is put in force, any other is given up.
  func settleGrowth() {
    while let growing = growingIndex {
      if growing.isWhole { putInForce(growing) }
      if exchangeGrowing(growing, nil) { return }
    }
  }

  private func putInForce(_ growing: GrowingIndex) {
    willStep(.growIndex)
    let before = packIndexNumber
    // Read after the number. So if the word is still the same, no index after this one can have come in force before.
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
