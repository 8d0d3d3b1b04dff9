internal import Posix
internal import Synchronization

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
