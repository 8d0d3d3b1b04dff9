internal import BlobRecord

/// What is taken from the bytes of a packed record.
///
/// A value instead of a closure: what a closure captures is copied in each function that hands it on, and all of it is counted.
/// That was a quarter of a load.
protocol PackedLookup {
  associatedtype Result

  /// - Parameters:
  ///   - found: the record, whose name fits.
  ///   - bytes: of header, name, payload and extension.
  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) throws -> Result
}

/// All of a record, live or not.
struct PackedCopyLookup: PackedLookup {
  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) -> (PackedFinding, PackedContent) {
    (found, PackedContent(header: found.recordHeader(name), body: unsafe Array(bytes[found.header.bodyRange])))
  }
}

/// The facts that a change needs.
struct PackedPartsLookup: PackedLookup {
  let comparesPayload: Bool

  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) -> PackedParts {
    unsafe PackedParts(of: found, RawSpan(_unsafeBytes: bytes), comparesPayload: comparesPayload)
  }
}

/// Nothing: that the record is there is all.
struct PackedPresenceLookup: PackedLookup {
  func result(
    of found: PackedFinding, _ name: RecordPath, _ bytes: UnsafeRawBufferPointer, in records: PackRecords
  ) {}
}

/// What the bytes of a record say.
struct PackedParts {
  let found: PackedFinding
  let kept: RecordExtension?
  let payloadBreach: RecordError?

  /// - Parameter comparesPayload: whether the payload is compared with its checksum, too.
  init(of found: PackedFinding, _ bytes: RawSpan, comparesPayload: Bool) {
    let tail = bytes.extracting(found.header.extensionRange)
    self.found = found
    // Whether it is whole is all that the rule tells.
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
