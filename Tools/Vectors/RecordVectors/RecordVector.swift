internal import BlobRecord

/// One file of Spec/vectors/records: its bytes, and the expected results of reading them.
///
/// The expected results are written out instead of being computed with the code that they test.
struct RecordVector {
  /// The dependence of a record's state on the time.
  enum Life {
    /// Live until this second, and expired from the next second on.
    case live(until: Int64)
    /// Live at any time, because the TTL or the update time is very large.
    case forever
    /// Live at any time, because the record is locked.
    case locked
    /// The header is valid, but the payload is not. After this second the record is expired, and its payload not read.
    case damaged(until: Int64)
    /// Damaged at any time, because the header is damaged or the record is locked.
    case unreadable
  }

  var key: String
  var note: String
  var bytes: [UInt8]
  var outcome: String
  var code: Int?
  var life: Life
  /// The extension, or `nil` if the file has no valid one.
  var tail: Tail?

  /// The content of the extension after a record's payload.
  struct Tail {
    var key: String?
    /// The extended data, which are text so that the manifest can contain them.
    var data: String

    var bytes: [UInt8] { RecordExtension(key: key.map { BlobKey($0) }, data: Array(data.utf8)).encoded }
  }

  /// The path relative to Spec/vectors.
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

  /// The fields of the header as they are stored, valid or not.
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

  /// The content of the extension, or null if the file has no valid one.
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
