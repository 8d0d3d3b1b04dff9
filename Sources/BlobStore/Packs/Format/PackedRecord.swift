internal import BlobRecord

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
