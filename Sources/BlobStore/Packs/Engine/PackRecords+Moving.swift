internal import BlobRecord
internal import Posix

extension PackRecords {
  /// Moves a record to another chunk, without a new generation. If the ttl is 0, its last use becomes its update time.
  ///
  /// The record is not moved if it is damaged, is no longer stored at `address`, or if the packs have no space. If
  /// the volume is full, `spare` is used.
  mutating func move(
    _ name: RecordPath, from address: PackAddress, spare: PackFiles.Spare?, _ hold: inout KeyHold
  ) throws {
    try finish(&hold)
    if !packs.isInForce { try follow() }
    guard let (found, content) = try soundContent(of: name), found.entry.address == address,
      let source = try packs.files.pack(address.pack)
    else { return }
    let isDurable = source.entry(ofChunk: address.chunk).chunkClass == .durable
    guard hasSequences,
      let room = try packs.files.room(
        for: found.header.byteCount, of: content.header, in: isDurable ? .durable : .survivors,
        owner: control.session.token(in: control), sequence: control.packSequence, spare: spare)
    else { return }
    let old = PackedPredecessor(try find(name, by: RecordJudge()))
    // A record that is durable stays so: its copy is on the medium before the record is marked as dead.
    try content.withBody { body in
      try commit(
        content.header, body, as: name, in: room, replacing: old, isDurable ? .barrier : .none, .move, &hold)
    }
  }

  /// Returns `nil` also for a damaged record.
  private func soundContent(of name: RecordPath) throws -> (PackedFinding, PackedContent)? {
    do {
      return try content(of: name)
    } catch is DamagedRecord {
      return nil
    }
  }
}
