internal import BlobRecord

extension RecordVector {
  static var all: [RecordVector] { plain + ours + extended + named + damagedHeaders + damagedPayloads }

  // MARK: Version 0, as SPTPersistentCache writes it: flags 0

  private static let plain: [RecordVector] = [
    RecordVector(
      key: "plain-check-value", note: "the third check value of the specification: crc 0xa45905c7",
      header: RecordHeader(refCount: 1, ttl: 64, updateTime: 1488, payloadSize: 400), payload: pattern(400),
      life: .locked),
    RecordVector(
      key: "plain-ttl-default", note: "ttl 0 is the default expiration",
      header: RecordHeader(updateTime: now, payloadSize: 5), payload: pattern(5), life: .live(until: 1_700_000_600)),
    RecordVector(
      key: "plain-ttl-one", note: "one second to live",
      header: RecordHeader(ttl: 1, updateTime: now, payloadSize: 5), payload: pattern(5),
      life: .live(until: 1_700_000_001)),
    RecordVector(
      key: "plain-ttl-2-63", note: "a ttl above Int64.max never passes",
      header: RecordHeader(ttl: 1 << 63, updateTime: now, payloadSize: 5), payload: pattern(5), life: .forever),
    RecordVector(
      key: "plain-ttl-largest", note: "the largest ttl",
      header: RecordHeader(ttl: .max, updateTime: now, payloadSize: 5), payload: pattern(5), life: .forever),
    RecordVector(
      key: "plain-update-time-largest", note: "an update time above Int64.max is in the future for ever",
      header: RecordHeader(ttl: 1, updateTime: .max, payloadSize: 5), payload: pattern(5), life: .forever),
    RecordVector(
      key: "plain-update-time-zero", note: "updated at the epoch",
      header: RecordHeader(ttl: 10, updateTime: 0, payloadSize: 5), payload: pattern(5), life: .live(until: 10)),
    RecordVector(
      key: "plain-future", note: "an update time in the future has not expired",
      header: RecordHeader(ttl: 60, updateTime: 4_102_444_800, payloadSize: 5), payload: pattern(5),
      life: .live(until: 4_102_444_860)),
    RecordVector(
      key: "plain-locked-expired", note: "a lock outlives the ttl",
      header: RecordHeader(refCount: 3, ttl: 1, updateTime: 1488, payloadSize: 5), payload: pattern(5), life: .locked),
    RecordVector(
      key: "plain-locked-most", note: "the largest lock count",
      header: RecordHeader(refCount: .max, updateTime: now, payloadSize: 5), payload: pattern(5), life: .locked),
    RecordVector(
      key: "plain-payload-empty", note: "a header and nothing else",
      header: RecordHeader(updateTime: now, payloadSize: 0), payload: [], life: .live(until: 1_700_000_600)),
    RecordVector(
      key: "plain-payload-1B", note: "one byte of payload",
      header: RecordHeader(updateTime: now, payloadSize: 1), payload: pattern(1), life: .live(until: 1_700_000_600)),
    RecordVector(
      key: "plain-payload-4KiB", note: "a page of payload",
      header: RecordHeader(updateTime: now, payloadSize: 4096), payload: pattern(4096),
      life: .live(until: 1_700_000_600)),
    RecordVector(
      key: "plain-reserved", note: "reserved fields mean nothing without their flags, and are kept",
      header: reservedFields, payload: pattern(5), life: .live(until: 1_700_000_060)),
    RecordVector(
      key: "da39a3ee5e6b4b0d3255bfef95601890afd80709", note: "a digest as a key, as is common",
      header: RecordHeader(updateTime: now, payloadSize: 5), payload: pattern(5), life: .live(until: 1_700_000_600)),
  ]

  private static let reservedFields = {
    var header = RecordHeader(
      ttl: 60, updateTime: now, payloadSize: 5, reserved2: 0x2222_2222_2222_2222, reserved3: 0x3333_3333,
      reserved4: 0x4444_4444)
    header.reserved1 = 0x1111_1111
    return header
  }()

  // MARK: Version 1: flags 0x2 and 0x4

  private static let ours: [RecordVector] = [
    sealed("sealed-ttl-default", note: "ttl 0", payload: pattern(5), life: .live(until: 1_700_000_600)),
    sealed("sealed-ttl-day", note: "a day to live", ttl: 86400, payload: pattern(5), life: .live(until: 1_700_086_400)),
    sealed("sealed-ttl-largest", note: "the largest ttl", ttl: .max, payload: pattern(5), life: .forever),
    sealed("sealed-locked", note: "locked once", refCount: 1, ttl: 1, payload: pattern(5), life: .locked),
    sealed(
      "sealed-payload-empty", note: "the checksum of no bytes is 0, and is there", payload: [],
      life: .live(until: 1_700_000_600)),
    sealed("sealed-payload-1B", note: "one byte", payload: pattern(1), life: .live(until: 1_700_000_600)),
    sealed("sealed-payload-4KiB", note: "a page", payload: pattern(4096), life: .live(until: 1_700_000_600)),
    sealed(
      "sealed-payload-header", note: "a payload that is itself a record",
      payload: file(RecordHeader(updateTime: now, payloadSize: 0), []), life: .live(until: 1_700_000_600)),
    sealed(
      "sealed-checksum-only", note: "flag 0x2 alone: the digest field means nothing", payload: pattern(5),
      life: .live(until: 1_700_000_600)
    ) { header in
      header.keyDigest = nil
      header.reserved2 = 0x2222_2222_2222_2222
    },
    sealed(
      "sealed-digest-only", note: "flag 0x4 alone: the checksum field means nothing", payload: pattern(5),
      life: .live(until: 1_700_000_600)
    ) { header in
      header.payloadChecksum = nil
      header.reserved3 = 0x3333_3333
    },
    sealed(
      "sealed-reserved", note: "the two fields that are still reserved are kept", payload: pattern(5),
      life: .live(until: 1_700_000_600)
    ) { header in
      header.reserved1 = 0x1111_1111
      header.reserved4 = 0x4444_4444
    },
  ]

  // MARK: Names: the payload is the key

  private static let named: [RecordVector] = [
    ("x", "one unit lies at the root"),
    ("\u{F8}", "one unit of two bytes lies at the root"),
    ("xy", "two units are name and subdirectory"),
    ("with two spaces", "spaces stay"),
    ("composed-caf\u{E9}", "an accent as one scalar"),
    ("decomposed-cafe\u{301}", "an accent as two scalars"),
    ("e\u{301}tude", "the second unit is a combining accent"),
    ("\u{65E5}\u{672C}\u{8A9E}", "three bytes a unit"),
    ("\u{1F600}", "one scalar of two units fills the subdirectory's name"),
    ("\u{1F680}-first", "a scalar of two units comes first"),
    ("z\u{1F680}-second", "the subdirectory's name is rounded up to the whole scalar: three units"),
    ("100%", "a percent sign is escaped"),
    ("percent%2Fescape", "what looks like an escape is escaped"),
    ("a/b/c.png", "slashes are escaped"),
    ("../../escape", "no key leaves the directory"),
    (".", "a name of one dot"),
    (".hidden", "a leading dot is escaped"),
    ("dots...", "other dots stay"),
    ("control\u{1}\t\n\u{7F}", "control bytes are escaped"),
    ("https://example.com/image.png?size=64&crop=1", "a location as a key"),
    (String(repeating: "long", count: 63) + "est", "a name of 255 bytes"),
    (String(repeating: "/", count: 85), "a key of 85 bytes with a name of 255"),
  ].map { key, note in sealed(key, note: note, ttl: 60, payload: Array(key.utf8), life: .live(until: 1_700_000_060)) }

  // MARK: Damage

  private static let damagedHeaders: [RecordVector] = [
    RecordVector(
      key: "damaged-0-bytes", note: "an empty file", bytes: [], outcome: "notEnoughDataToGetHeader", code: 105,
      life: .unreadable),
    RecordVector(
      key: "damaged-63-bytes", note: "a header without its last byte", bytes: Array(sound.prefix(63)),
      outcome: "notEnoughDataToGetHeader", code: 105, life: .unreadable),
    RecordVector(
      key: "damaged-zeros", note: "blocks that never reached the medium", bytes: [UInt8](repeating: 0, count: 69),
      outcome: "magicMismatch", code: 100, life: .unreadable),
    damaged("damaged-magic", note: "SPTf, and a crc that holds", outcome: "magicMismatch", code: 100) { bytes in
      bytes[3] = 0x66
      seal(&bytes)
    },
    damaged("damaged-big-endian", note: "the magic in the other byte order", outcome: "magicMismatch", code: 100) {
      $0.replaceSubrange(0..<4, with: Array("FTPS".utf8))
    },
    damaged("damaged-crc", note: "one bit of the crc", outcome: "invalidHeaderCRC", code: 104) { $0[60] ^= 1 },
    damaged("damaged-ttl-bit", note: "one bit of the ttl", outcome: "invalidHeaderCRC", code: 104) { $0[16] ^= 0x80 },
    damaged("damaged-header-size", note: "headerSize 72, and a crc that holds", outcome: "wrongHeaderSize", code: 102) {
      $0[4] = 72
      seal(&$0)
    },
    damaged("damaged-flags", note: "flag 0x10, and a crc that holds", outcome: "unsupportedFlags", code: 110) {
      $0[56] |= 0x10
      seal(&$0)
    },
    damaged("damaged-flag-highest", note: "flag 0x80000000 alone", outcome: "unsupportedFlags", code: 110) {
      $0.replaceSubrange(56..<60, with: [0, 0, 0, 0x80])
      seal(&$0)
    },
    damaged(
      "damaged-header-size-and-flags", note: "headerSize is judged before flags", outcome: "wrongHeaderSize", code: 102
    ) {
      $0[4] = 72
      $0[56] |= 0x10
      seal(&$0)
    },
    damaged(
      "damaged-crc-and-header-size", note: "the crc is judged before headerSize", outcome: "invalidHeaderCRC", code: 104
    ) {
      $0[4] = 72
      $0[56] |= 0x10
    },
    damaged("damaged-magic-and-all", note: "the magic is judged first", outcome: "magicMismatch", code: 100) {
      $0[0] = 0
      $0[4] = 72
      $0[56] |= 0x10
      $0[60] ^= 1
    },
  ]

  private static let damagedPayloads: [RecordVector] = [
    sealed(
      "damaged-stream", note: "flag 0x1: still being streamed", payload: pattern(5), outcome: "recordIsStreamAndBusy",
      code: 106, life: .damaged(until: 1_700_000_600)
    ) { $0.flags.insert(.streamIncomplete) },
    sealed(
      "damaged-stream-and-size", note: "flag 0x1 is judged before the size", payload: pattern(5),
      outcome: "recordIsStreamAndBusy", code: 106, life: .damaged(until: 1_700_000_600)
    ) {
      $0.flags.insert(.streamIncomplete)
      $0.payloadSize = 6
    },
    sealed(
      "damaged-payload-short", note: "one byte fewer than stated", payload: pattern(5), outcome: "wrongPayloadSize",
      code: 103, life: .damaged(until: 1_700_000_600)
    ) { $0.payloadSize = 6 },
    sealed(
      "damaged-payload-long", note: "one byte more than stated", payload: pattern(5), outcome: "wrongPayloadSize",
      code: 103, life: .damaged(until: 1_700_000_600)
    ) { $0.payloadSize = 4 },
    sealed(
      "damaged-payload-missing", note: "a header alone", payload: [], outcome: "wrongPayloadSize", code: 103,
      life: .damaged(until: 1_700_000_600)
    ) { $0.payloadSize = 5 },
    sealed(
      "damaged-payload-size-largest", note: "a size that no file has; nothing may be allocated for it",
      payload: pattern(5), outcome: "wrongPayloadSize", code: 103, life: .damaged(until: 1_700_000_600)
    ) { $0.payloadSize = .max },
    RecordVector(
      key: "damaged-plain-payload-short", note: "without a checksum the size still tells",
      header: RecordHeader(ttl: 60, updateTime: now, payloadSize: 6), payload: pattern(5), outcome: "wrongPayloadSize",
      code: 103, life: .damaged(until: 1_700_000_060)),
    sealed(
      "damaged-payload-bit", note: "one bit of the payload", payload: pattern(5), outcome: "payloadChecksumMismatch",
      code: 108, life: .damaged(until: 1_700_000_600)
    ) { $0.reserved3 ^= 1 },
    sealed(
      "damaged-locked-payload-bit", note: "one bit of the payload of a locked record", refCount: 1, ttl: 1,
      payload: pattern(5), outcome: "payloadChecksumMismatch", code: 108, life: .unreadable
    ) { $0.reserved3 ^= 1 },
    sealed(
      "damaged-empty-payload-checksum", note: "no bytes, and a checksum of some", payload: [],
      outcome: "payloadChecksumMismatch", code: 108, life: .damaged(until: 1_700_000_600)
    ) { $0.reserved3 = 1 },
    sealed(
      "damaged-key-digest", note: "written for the name `elsewhere`, and moved", payload: pattern(5),
      outcome: "keyMismatch", code: 109, life: .damaged(until: 1_700_000_600)
    ) { $0.keyDigest = NameDigest.digest(ofFileName: "elsewhere") },
    sealed(
      "damaged-checksum-and-digest", note: "the checksum is judged before the digest", payload: pattern(5),
      outcome: "payloadChecksumMismatch", code: 108, life: .damaged(until: 1_700_000_600)
    ) {
      $0.reserved3 ^= 1
      $0.reserved2 ^= 1
    },
    sealed(
      "damaged-size-and-all", note: "the size is judged before checksum and digest", payload: pattern(5),
      outcome: "wrongPayloadSize", code: 103, life: .damaged(until: 1_700_000_600)
    ) {
      $0.payloadSize = 6
      $0.reserved3 ^= 1
      $0.reserved2 ^= 1
    },
  ]

  // MARK: Creating vectors

  private static let now = UInt64(VectorSet.updateTime)
  private static let sound = file(RecordHeader(ttl: 60, updateTime: now, payloadSize: 5), pattern(5))

  init(
    key: String, note: String, header: RecordHeader, payload: [UInt8], outcome: String = "ok", code: Int? = nil,
    life: Life
  ) {
    self.init(
      key: key, note: note, bytes: Self.file(header, payload), outcome: outcome, code: code, life: life)
  }

  /// Returns a record with payload checksum and key digest. `change` modifies its header before the crc is computed.
  static func sealed(
    _ key: String, note: String, refCount: UInt32 = 0, ttl: UInt64 = 0, payload: [UInt8], outcome: String = "ok",
    code: Int? = nil, life: Life, behind tail: [UInt8] = [], change: (inout RecordHeader) -> Void = { _ in }
  ) -> RecordVector {
    guard let digest = try? RecordLayout().path(for: BlobKey(key)).digest else {
      preconditionFailure("\(key) has no file name under the encoded naming")
    }
    var header = RecordHeader(refCount: refCount, ttl: ttl, updateTime: now, payloadSize: UInt64(payload.count))
    header.payloadChecksum = CRC32.checksum(of: payload.span.bytes)
    header.keyDigest = digest
    change(&header)
    return RecordVector(
      key: key, note: note, header: header, payload: payload + tail, outcome: outcome, code: code, life: life)
  }

  /// Returns a damaged record: a valid record of version 0 whose bytes `change` modifies.
  private static func damaged(
    _ key: String, note: String, outcome: String, code: Int, change: (inout [UInt8]) -> Void
  ) -> RecordVector {
    var bytes = sound
    change(&bytes)
    return RecordVector(key: key, note: note, bytes: bytes, outcome: outcome, code: code, life: .unreadable)
  }

  private static func file(_ header: RecordHeader, _ payload: [UInt8]) -> [UInt8] {
    header.withEncodedBytes { bytes in bytes.withUnsafeBytes { Array($0) } } + payload
  }

  /// Computes the crc of a modified header again.
  private static func seal(_ bytes: inout [UInt8]) {
    let crc = CRC32.checksum(of: bytes.span.bytes.extracting(first: 60))
    withUnsafeBytes(of: crc.littleEndian) { bytes.replaceSubrange(60..<64, with: $0) }
  }

  /// Returns bytes that are neither text nor all the same.
  static func pattern(_ count: Int) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ 0x87) }
  }
}
