internal import BlobRecord
internal import BlobStore
internal import TextFormats

extension JSONObject {
  /// A record as every subcommand shows it; `file` is relative to its directory.
  init(record entry: RecordEntry) {
    self.init(
      key: entry.key, file: entry.file, state: entry.state, header: entry.storedHeader, expiry: entry.expiry,
      damage: entry.damage)
    add(extendedData: entry.extendedData)
    if entry.isStampedAhead { add("stampedAhead", true) }
    add(packed: entry.packed)
  }

  /// - Parameter header: nil where the file has fewer than 64 bytes.
  init(
    key: BlobKey?, file: String, state: RecordState, header: StoredHeader?, expiry: UnixTime?, damage: RecordError?
  ) {
    self.init(type: "record")
    add("key", key?.string)
    add("file", file)
    add("state", state.rawValue)
    add("refCount", header?.refCount)
    // Unsigned 64-bit fields are held at what a signed one can take: readers of JSON have no larger integers.
    add("ttl", header.map { Int64(clamping: $0.ttl) })
    add("updateTime", header.map { Int64(clamping: $0.updateTime) })
    add("payloadSize", header.map { Int64(clamping: $0.payloadSize) })
    add("flags", header?.flags.rawValue)
    add("crc", header?.crc)
    let hasExpiry = state == .live || state == .expired
    add("expiresAt", hasExpiry ? expiry?.seconds : nil)
    if let damage { add(damage) }
  }

  /// Where a packed record lies.
  mutating func add(packed place: PackedPlace?) {
    guard let place else { return }
    add("pack", place.pack)
    add("chunk", place.chunk)
    add("offset", place.offset)
    add("sequence", place.sequence)
  }

  /// The rule that a damaged record breaks.
  mutating func add(_ damage: RecordError) {
    add("error", damage.name)
    add("code", damage.code)
  }
}
