internal import BlobRecord

/// Finds the records of a chunk from its bytes, in ascending order of their offsets.
///
/// At bytes that are no record, the walk checks each further offset at which a record may begin. A header is valid only
/// for its own address and its chunk's salts, so payloads and earlier lives of the chunk are skipped.
package struct ChunkWalk: Sendable {
  private let pack: Int
  private let chunk: Int
  private let salts: ChunkSalts
  private var offset = 0

  /// - Parameter salts: The salts of the chunk's quarters, read before its bytes.
  package init(pack: Int, chunk: Int, salts: ChunkSalts) {
    self.pack = pack
    self.chunk = chunk
    self.salts = salts
  }

  /// Returns the next complete record, dead or not, or `nil` after the last one.
  ///
  /// - Parameter bytes: The bytes of the chunk from its beginning, which have to be the same for each call.
  /// - Complexity: O(*n*) for *n* bytes in all calls together, whatever they contain, because a header's checksum
  ///   covers only header and name, and records are skipped.
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

/// The salts of a chunk's quarters, as stored in the first words of its four dead sectors.
package struct ChunkSalts: Hashable, Sendable {
  private let words: SIMD4<UInt64>

  package init(words: SIMD4<UInt64>) { self.words = words }

  /// A Boolean value that indicates whether a quarter may contain a record.
  package var areAny: Bool { (0..<PackLayout.quarterCount).contains { self[$0] != nil } }

  /// Returns the salt of a quarter, or `nil` if its sector is incomplete, so that the quarter contains no record.
  package subscript(quarter: Int) -> UInt32? { PackLayout.salt(in: words[quarter]) }
}

/// A record of a chunk, with its address.
package struct PackedRecord: Hashable, Sendable {
  package let address: PackAddress
  package let header: PackedHeader
}

extension PackedRecord {
  // The ranges are relative to the beginning of the chunk.
  package var nameRange: Range<Int> { header.nameRange.shifted(by: address.offset) }
  package var payloadRange: Range<Int> { header.payloadRange.shifted(by: address.offset) }
  package var extensionRange: Range<Int> { header.extensionRange.shifted(by: address.offset) }
  /// The range of the whole record, including its padding.
  package var range: Range<Int> { address.offset..<(address.offset + header.byteCount) }

  package func nameDigest(in chunk: RawSpan) -> UInt64 {
    unsafe chunk.extracting(nameRange).withUnsafeBytes { name in
      unsafe NameDigest.digest(ofFileName: name.bindMemory(to: UInt8.self).span)
    }
  }

  /// Returns whether the payload matches its checksum, in O(*n*) for *n* bytes.
  package func hasSoundPayload(in chunk: RawSpan) -> Bool { header.isPayloadSound(in: chunk.extracting(range)) }
}

extension Range<Int> {
  fileprivate func shifted(by offset: Int) -> Range { (lowerBound + offset)..<(upperBound + offset) }
}
