/// Finds the records of a chunk from its bytes alone, first to last.
///
/// After bytes that are no record, the walk looks at each further place at which one may begin. A header is believed for
/// its own place and its chunk's salts only, so bytes of a payload or of the chunk's former life are passed over.
package struct ChunkWalk: Sendable {
  private let pack: Int
  private let chunk: Int
  private let salts: ChunkSalts
  private var offset = 0

  /// - Parameters:
  ///   - pack: the pack's number: 0 to 1023.
  ///   - chunk: the chunk's number in its pack: 0 to 1023.
  ///   - salts: of its quarters, read before its bytes.
  package init(pack: Int, chunk: Int, salts: ChunkSalts) {
    self.pack = pack
    self.chunk = chunk
    self.salts = salts
  }

  /// The next record, dead or not, that lies in these bytes as a whole; nil after the last one.
  ///
  /// - Parameter bytes: of the chunk, from its begin: the same ones at each call.
  /// - Complexity: O(*n*) for *n* bytes in all calls together, whatever they are: a name ends a header's checksum, and a
  ///   record that is found is passed over.
  package mutating func next(in bytes: RawSpan) -> PackedRecord? {
    let end = min(bytes.byteCount, PackLayout.chunkByteCount)
    while true {
      offset = PackLayout.firstPlace(from: offset)
      guard offset <= end - PackLayout.smallestRecordByteCount else { return nil }
      let quarter = offset / PackLayout.quarterByteCount
      guard let salt = salts[quarter] else {
        offset = (quarter + 1) * PackLayout.quarterByteCount
        continue
      }
      let address = PackAddress(pack: pack, chunk: chunk, offset: offset)
      if let header = PackedHeader(decoding: bytes.extracting(offset..<end), at: address, salt: salt),
        header.byteCount <= end - offset
      {
        offset += header.byteCount
        return PackedRecord(address: address, header: header)
      }
      offset += PackLayout.recordAlignment
    }
  }
}
