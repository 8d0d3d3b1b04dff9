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
}

extension ControlFile {
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
