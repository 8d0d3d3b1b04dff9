internal import BlobRecord
internal import Posix
internal import Synchronization

extension PackRecords {
  mutating func remove(
    _ found: borrowing FoundRecord, _ level: BlobStore.Durability.Level, recycling _: Bool, erasing: Bool,
    in _: borrowing Directory, of open: OpenRoot, _ hold: inout KeyHold
  ) throws -> Bool {
    guard let address = found.packAddress else { return false }
    let name = found.name
    // The file is unlinked first, because another program's file would be visible once the packed record is removed.
    if try core.hasFile(name, in: open) {
      _ = try core.lookUpInSubdirectory(of: name, open) { try $0.unlink(name.fileName) ? true : nil }
    }
    // After a power failure, a file that an earlier store has unlinked would be visible too.
    if level == .full { try synchronizeUnlinks(of: name, level) }
    return try remove(name, at: address, level, counting: found.size, erasing: erasing, &hold)
  }

  /// Removes a record, and returns `false` if it no longer exists.
  ///
  /// - Parameters:
  ///   - kind: The change that the stripe announces.
  ///   - size: The size to subtract from the counters, or `nil` if they have been changed before.
  ///   - isErased: A Boolean value that indicates whether the record's bytes are overwritten with zeros.
  /// - Throws: The error of a sync, although the record is removed.
  mutating func remove(
    _ name: RecordPath, at address: UInt64, _ level: BlobStore.Durability.Level, as kind: StripeIntent.Kind = .record,
    counting size: RecordSize? = nil, erasing isErased: Bool = false, _ hold: inout KeyHold
  ) throws -> Bool {
    let address = PackAddress(rawValue: address)
    hold.beginPayloadChange(level)
    hold.announce(.old, StripeIntent(kind, at: address.rawValue))
    let isRemoved = try takeAway(name, address, erasing: isErased)
    if isRemoved, let size { hold.count(from: size, to: nil) }
    // All packs are synced, because an older record's dead bit in another pack may not be on the medium yet.
    hold.announce(.old, nil)
    if level == .full { try packs.files.synchronize() }
    return isRemoved
  }

  /// Removes the entry and marks the record as dead. If its bytes cannot be overwritten, throws after the removal.
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
        // After the entry, so that no load takes the zeros for damage.
        // Before the mark, because the chunk may be reused after it.
        if isErased { failure = erase(at: address) }
      }
      // After the entry, because no record with an entry may be dead. Only once, because the chunk may then be reused.
      if !isMarked { try markDead(address) }
      isMarked = true
      atomicMemoryFence(ordering: .sequentiallyConsistent)
      if packs.isInForce { break }
    }
    if let failure { throw failure }
    return isRemoved
  }

  /// Overwrites the bytes of a record, and returns the error if that fails.
  private func erase(at address: PackAddress) -> (any Error)? {
    do {
      guard let pack = try packs.files.pack(address.pack) else { return nil }
      // The entry's size is rounded up to bytes of the next record. Of a damaged record, only the header is erased.
      let byteCount = try pack.head(of: address)?.header.byteCount ?? PackLayout.recordHeaderByteCount
      let zeros = [UInt8](repeating: 0, count: byteCount)
      try pack.write(unsafe zeros.span.bytes, at: address)
      return nil
    } catch {
      return error
    }
  }
}
