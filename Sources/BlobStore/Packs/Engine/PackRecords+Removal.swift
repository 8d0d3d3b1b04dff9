internal import BlobRecord
internal import Posix
internal import Synchronization

// Removals of packed records, and of their bytes.

extension PackRecords {
  /// Removes a record.
  ///
  /// - Parameters:
  ///   - kind: what the stripe announces meanwhile.
  ///   - size: by which the counters fall; nil if they have been changed before.
  ///   - isErased: whether its bytes become zeros.
  /// - Returns: false if it is not there any more.
  /// - Throws: where it cannot be said to be on the medium, it is removed all the same.
  mutating func remove(
    _ name: RecordPath, at address: UInt64, _ level: BlobStore.Durability.Level, as kind: StripeIntent.Kind = .record,
    counting size: RecordSize? = nil, erasing isErased: Bool = false, _ hold: inout KeyHold
  ) throws -> Bool {
    let address = PackAddress(rawValue: address)
    hold.announce(.old, StripeIntent(kind, at: address.rawValue))
    hold.beginPayloadChange(level)
    let isRemoved = try takeAway(name, address, erasing: isErased)
    if isRemoved, let size { hold.count(from: size, to: nil) }
    // In all packs, because an older record of the key may lie in another one, whose bit is not on the medium yet.
    hold.announce(.old, nil)
    if level == .full { try packs.files.synchronize() }
    return isRemoved
  }

  /// - Throws: where its bytes cannot be overwritten, the record is removed all the same.
  mutating func takeAway(
    _ name: RecordPath, _ address: PackAddress, erasing isErased: Bool = false
  ) throws -> Bool {
    var (isRemoved, isMarked) = (false, false)
    var failure: (any Error)?
    while true {
      let (growing, inForce) = try indexes()
      if let growing {
        control.willStep(.exchangeEntry)
        _ = growing.remove(name.digest, at: address)
      }
      control.willStep(.exchangeEntry)
      if let entry = inForce.remove(name.digest, at: address) {
        isRemoved = true
        try countDead(entry)
        // Behind the entry, so that no load takes zeros for damage. Before the mark: its chunk is not used anew until then.
        if isErased { failure = erase(at: address) }
      }
      // After the entry: no bit lies on a record that the index points at. Once: its chunk may be used anew from then on.
      if !isMarked { try markDead(address) }
      isMarked = true
      atomicMemoryFence(ordering: .sequentiallyConsistent)
      if packs.isInForce { break }
    }
    if let failure { throw failure }
    return isRemoved
  }

  /// - Returns: why the bytes of a record may not have become zeros.
  private func erase(at address: PackAddress) -> (any Error)? {
    do {
      guard let pack = try packs.files.pack(address.pack) else { return nil }
      // The entry knows the size in steps alone, and the next record begins behind this one. A damaged header is all that goes.
      let byteCount = try pack.head(of: address)?.header.byteCount ?? PackLayout.recordHeaderByteCount
      let zeros = [UInt8](repeating: 0, count: byteCount)
      try pack.write(unsafe zeros.span.bytes, at: address)
      return nil
    } catch {
      return error
    }
  }
}
