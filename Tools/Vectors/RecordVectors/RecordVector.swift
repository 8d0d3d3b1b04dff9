internal import BlobRecord

/// One file of Spec/vectors/records: its bytes, and what a reader has to make of them.
///
/// Expectations are stated, not computed with the code that they are there to check.
struct RecordVector {
  /// What becomes of a record as time goes by.
  enum Life {
    /// Live up to this second, expired from the next.
    case live(until: Int64)
    /// Live at any time, because its TTL or its update time is that large.
    case forever
    /// Locked, so live at any time.
    case locked
    /// The header is sound and the payload is not. An expired record is not found, and its payload is not looked at.
    case damaged(until: Int64)
    /// Damaged at any time: the header is, or the record is locked.
    case unreadable
  }

  var key: String
  var note: String
  var bytes: [UInt8]
  var outcome: String
  var code: Int?
  var life: Life
  /// The extension, where the file has a whole one.
  var tail: Tail?

  /// What a record keeps behind its payload.
  struct Tail {
    var key: String?
    /// Text, so that the manifest can show it.
    var data: String

    var bytes: [UInt8] { RecordExtension(key: key.map { BlobKey($0) }, data: Array(data.utf8)).encoded }
  }

  /// Relative to Spec/vectors.
  var path: String {
    guard let path = try? RecordLayout().path(for: BlobKey(key)) else {
      preconditionFailure("\(key) has no file name under the encoded naming")
    }
    return "records/" + path.relative
  }

  var manifestEntry: JSONText {
    .object([
      ("path", .string(path)),
      ("key", .string(key)),
      ("note", .string(note)),
      ("fileSize", .number(bytes.count)),
      ("outcome", .string(outcome)),
      ("code", code.map { .number($0) } ?? .null),
      ("header", header),
      ("payloadCRC32", payloadCRC32),
      ("extension", extensionEntry),
      (
        "judgements",
        .array(
          judgements.map { time, state in
            .object([("evaluateAt", .number(time)), ("state", .string(state))])
          })
      ),
    ])
  }

  /// The fields as they are stored, sound or not.
  private var header: JSONText {
    guard let stored = try? StoredHeader(decoding: bytes.span.bytes) else { return .null }
    return .object([
      ("magic", .hexadecimal(stored.magic)),
      ("headerSize", .number(stored.headerSize)),
      ("refCount", .number(stored.refCount)),
      ("reserved1", .hexadecimal(stored.reserved1)),
      ("ttl", .number(stored.ttl)),
      ("updateTime", .number(stored.updateTime)),
      ("payloadSize", .number(stored.payloadSize)),
      ("reserved2", .hexadecimal(stored.reserved2)),
      ("reserved3", .hexadecimal(stored.reserved3)),
      ("reserved4", .hexadecimal(stored.reserved4)),
      ("flags", .number(stored.flags.rawValue)),
      ("crc", .hexadecimal(stored.crc)),
    ])
  }

  private var payloadCRC32: JSONText {
    guard bytes.count >= RecordHeader.byteCount else { return .null }
    let body = Array(bytes.dropFirst(RecordHeader.byteCount))
    let range = (try? StoredHeader(decoding: bytes.span.bytes))?.payloadRange(ofBody: body.count) ?? body.indices
    return .hexadecimal(CRC32.checksum(of: body[range].span.bytes))
  }

  /// As it was put there, where it is whole.
  private var extensionEntry: JSONText {
    guard let tail else { return .null }
    return .object([
      ("key", tail.key.map { .string($0) } ?? .null), ("data", .string(tail.data)),
    ])
  }

  private var judgements: [(Int64, String)] {
    switch life {
    case .live(let last): [(0, "live"), (last, "live"), (last + 1, "expired"), (.max, "expired")]
    case .forever: [(0, "live"), (VectorSet.updateTime, "live"), (.max, "live")]
    case .locked: [(0, "locked"), (VectorSet.updateTime, "locked"), (.max, "locked")]
    case .damaged(let last): [(0, "damaged"), (last, "damaged"), (last + 1, "expired")]
    case .unreadable: [(0, "damaged"), (.max, "damaged")]
    }
  }
}
