internal import BlobRecord

/// An operation on the bytes of a packed record.
///
/// It is a value, not a closure, because copying captured values took a quarter of the time of a load.
protocol PackedLookup {
  associatedtype Result

  /// Returns the result for a record with the right name, given the bytes of header, name, payload and extension.
  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) throws -> Result
}

struct PackedCopyLookup: PackedLookup {
  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) -> (PackedFinding, PackedContent) {
    (found, PackedContent(header: found.recordHeader(name), body: unsafe Array(bytes[found.header.bodyRange])))
  }
}

struct PackedPartsLookup: PackedLookup {
  let comparesPayload: Bool

  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) -> PackedParts {
    unsafe PackedParts(of: found, RawSpan(_unsafeBytes: bytes), comparesPayload: comparesPayload)
  }
}

/// Determines only that a record exists.
struct PackedPresenceLookup: PackedLookup {
  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) {}
}

struct PackedParts {
  let found: PackedFinding
  let kept: RecordExtension?
  let payloadBreach: RecordError?

  init(of found: PackedFinding, _ bytes: RawSpan, comparesPayload: Bool) {
    let tail = bytes.extracting(found.header.extensionRange)
    self.found = found
    // Callers only need to know whether the extension is complete.
    kept = tail.byteCount > 0 ? try? RecordExtension(decoding: tail) : nil
    let isSound = !comparesPayload || found.header.isPayloadSound(in: bytes)
    payloadBreach = isSound ? nil : found.header.payloadBreach(in: bytes)
  }
}

extension PackedHeader {
  func payloadBreach(in bytes: RawSpan) -> RecordError {
    .payloadChecksumMismatch(
      stated: payloadChecksum, computed: CRC32.checksum(of: bytes.extracting(payloadRange)))
  }
}
