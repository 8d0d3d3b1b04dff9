internal import BlobRecord

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

/// The salts of a chunk's quarters, as the first words of its four dead sectors hold them.
package struct ChunkSalts: Hashable, Sendable {
  private let words: SIMD4<UInt64>

  /// - Parameter words: whatever they hold.
  package init(words: SIMD4<UInt64>) { self.words = words }

  /// Whether a record may lie in one of the quarters.
  package var areAny: Bool { (0..<PackLayout.quarterCount).contains { self[$0] != nil } }

  /// - Parameter quarter: 0 to 3.
  /// - Returns: nil for a quarter whose sector is not whole, in which no record lies therefore.
  package subscript(quarter: Int) -> UInt32? { PackLayout.salt(in: words[quarter]) }
}

/// A record that was found in a chunk, and where its parts lie there.
package struct PackedRecord: Hashable, Sendable {
  package let address: PackAddress
  package let header: PackedHeader
}

extension PackedRecord {
  // In bytes from the chunk's begin.
  package var nameRange: Range<Int> { header.nameRange.shifted(by: address.offset) }
  package var payloadRange: Range<Int> { header.payloadRange.shifted(by: address.offset) }
  package var extensionRange: Range<Int> { header.extensionRange.shifted(by: address.offset) }
  /// All of it, the padding included.
  package var range: Range<Int> { address.offset..<(address.offset + header.byteCount) }

  /// The digest of the record's file name.
  ///
  /// - Parameter chunk: the chunk in which the record was found.
  package func nameDigest(in chunk: RawSpan) -> UInt64 {
    unsafe chunk.extracting(nameRange).withUnsafeBytes { name in
      unsafe NameDigest.digest(ofFileName: name.bindMemory(to: UInt8.self).span)
    }
  }

  /// Whether the payload is what was stored.
  ///
  /// - Parameter chunk: the chunk in which the record was found.
  /// - Complexity: O(*n*) for a payload of *n* bytes.
  package func hasSoundPayload(in chunk: RawSpan) -> Bool { header.isPayloadSound(in: chunk.extracting(range)) }
}

extension Range<Int> {
  fileprivate func shifted(by offset: Int) -> Range { (lowerBound + offset)..<(upperBound + offset) }
}
