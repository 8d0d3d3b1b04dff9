/// One entry of the index: a tag of the name's hash, the record's size and its address in one word.
///
/// One word, because a compare-and-swap publishes a record. The tag only makes it likely that the name fits.
package struct IndexEntry: RawRepresentable, Hashable, Sendable {
  package let rawValue: UInt64

  package init(rawValue: UInt64) { self.rawValue = rawValue }

  /// No record is so small that its entry is 0.
  package static let empty = IndexEntry(rawValue: 0)

  package static let sizeUnit = 16
  private static let sizeBitCount: UInt64 = 11
  private static let tagShift = PackAddress.bitCount + sizeBitCount

  /// - Parameters:
  ///   - tag: of the name's hash (`IndexHash`).
  ///   - byteCount: what the record takes in its chunk: 64 to 32,752.
  ///   - address: where it begins.
  package init(tag: UInt16, byteCount: Int, address: PackAddress) {
    assert(PackLayout.smallestRecordByteCount...PackLayout.largestRecordByteCount ~= byteCount)
    let size = UInt64(truncatingIfNeeded: (byteCount + Self.sizeUnit - 1) / Self.sizeUnit)
    rawValue = UInt64(tag) << Self.tagShift | size << PackAddress.bitCount | address.rawValue
  }

  package var isEmpty: Bool { rawValue == 0 }
  package var tag: UInt16 { UInt16(truncatingIfNeeded: rawValue >> Self.tagShift) }
  package var address: PackAddress { PackAddress(rawValue: rawValue) }

  /// The record's bytes, rounded up to a multiple of 16.
  package var byteCount: Int {
    Int(truncatingIfNeeded: rawValue >> PackAddress.bitCount & (1 << Self.sizeBitCount - 1)) * Self.sizeUnit
  }

  /// How many bytes from the address on have the whole record in them: `byteCount`, as far as the chunk goes.
  ///
  /// 0 at an address where no record can lie, so a nonsensical entry reads nothing.
  package var readByteCount: Int { address.canHoldRecord ? min(byteCount, address.byteCountToChunkEnd) : 0 }
}
