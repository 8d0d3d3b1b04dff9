internal import BlobRecord
internal import Posix
internal import Synchronization

extension PackRecords {
  /// Takes each stripe once and finishes interrupted changes, so that all earlier changes end. No key may be held.
  ///
  /// - Throws: `busy` if another process holds a stripe for too long.
  mutating func finishAllStripes() throws {
    for stripe in 0..<ControlLayout.stripeCount {
      var hold = try core.stripes.hold(UInt64(stripe))
      try finish(&hold)
    }
  }

  /// Does the same as `finishAllStripes` within a tenth of a second, or returns `false` if a change takes longer.
  mutating func finishAvailableStripes() throws -> Bool {
    var left = Array(0..<ControlLayout.stripeCount)
    var backoff = Backoff(timeout: .milliseconds(100))
    repeat {
      var busy: [Int] = []
      for stripe in left {
        if var hold = try core.stripes.holdIfAvailable(UInt64(stripe)) {
          try finish(&hold)
        } else {
          busy.append(stripe)
        }
      }
      left = busy
    } while !left.isEmpty && backoff.wait()
    return left.isEmpty
  }

  /// Finishes a change that a dead holder of the stripe, or a failed change, has announced.
  mutating func finish(_ hold: inout KeyHold) throws {
    for word in [ControlLayout.IntentWord.new, .old] {
      guard let intent = hold.intent(word) else { continue }
      // An exchange may have been made in one of two indexes only.
      control.settleGrowth()
      try finish(intent, &hold)
      hold.announce(word, nil)
    }
  }

  /// Finishes a change that has failed, and throws its error. The error is thrown as `Published` if the new record is
  /// current nevertheless, because an index that was rebuilt in the meantime contains it.
  mutating func finish(
    _ hold: inout KeyHold, after error: any Error, of name: RecordPath, at address: PackAddress
  ) throws -> Never {
    try finish(&hold)
    throw try isCurrent(name, at: address) ? Published(cause: error) : error
  }

  /// Returns whether the index in force has the entry of a record.
  mutating func isCurrent(_ name: RecordPath, at address: PackAddress) throws -> Bool {
    try indexes().inForce.find(name.digest, at: address) != nil
  }

  private mutating func finish(_ intent: StripeIntent, _ hold: inout KeyHold) throws {
    let address = PackAddress(rawValue: intent.address)
    guard let kind = intent.kind, address.canHoldRecord, let pack = try packs.files.pack(address.pack) else { return }
    // Before the header: a collector passes over a dead record without its stripe, and may have reused its chunk.
    guard !pack.deadBits(ofChunk: address.chunk).isDead(address), let fileName = try fileName(of: pack, address, hold),
      let name = core.layout(of: open).path(ofFileName: fileName)
    else { return }
    let path = try core.resolved(name, in: open)
    // Whichever record becomes current, loads may have found the other one since the interruption.
    let change = try hold.beginChange(ofOther: path.digest)
    defer { hold.endChange(ofOther: change) }
    while true {
      if !packs.isInForce { try follow() }
      let isCurrent = packs.index.find(path.digest, at: address) != nil
      let isReplaced = try kind == .toFile && isCurrent && hasFile(path)
      if !isCurrent || isReplaced {
        // The index may have been rebuilt since the lookup, and no entry may lead to a dead record.
        _ = try takeAway(path, address)
      } else if kind == .toPack {
        removeFile(path)
      }
      atomicMemoryFence(ordering: .sequentiallyConsistent)
      if packs.isInForce { return }
    }
  }

  /// Returns the name of the record at an address if the name belongs to the stripe.
  private func fileName(of pack: PackFile, _ address: PackAddress, _ hold: borrowing KeyHold) throws -> String? {
    guard let name = try pack.head(of: address)?.name, hold.covers(NameDigest.digest(ofFileName: name.span)) else {
      return nil
    }
    return String(validating: name, as: UTF8.self)
  }

  private func hasFile(_ name: RecordPath) throws -> Bool {
    let status = try core.lookUpInSubdirectory(of: name, open) { try $0.status(of: name.fileName) }
    return status?.type == .regular
  }
}
