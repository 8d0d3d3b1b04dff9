internal import BlobRecord
internal import BlobStore
internal import TextFormats

extension JSONObject {
  /// Creates the JSON object of a record for all subcommands. `file` is relative to the record's directory.
  init(record entry: RecordEntry) {
    self.init(
      key: entry.key, file: entry.file, state: entry.state, header: entry.storedHeader, expiry: entry.expiry,
      damage: entry.damage)
    add(extendedData: entry.extendedData)
    if entry.isStampedAhead { add("stampedAhead", true) }
    add(packed: entry.packed)
  }

  /// - Parameter header: The header, or `nil` if the file has fewer than 64 bytes.
  init(
    key: BlobKey?, file: String, state: RecordState, header: StoredHeader?, expiry: UnixTime?, damage: RecordError?
  ) {
    self.init(type: "record")
    add("key", key?.string)
    add("file", file)
    add("state", state.rawValue)
    add("refCount", header?.refCount)
    // Unsigned 64-bit fields saturate at the largest signed value, because JSON readers have no larger integers.
    add("ttl", header.map { Int64(clamping: $0.ttl) })
    add("updateTime", header.map { Int64(clamping: $0.updateTime) })
    add("payloadSize", header.map { Int64(clamping: $0.payloadSize) })
    add("flags", header?.flags.rawValue)
    add("crc", header?.crc)
    let hasExpiry = state == .live || state == .expired
    add("expiresAt", hasExpiry ? expiry?.seconds : nil)
    if let damage { add(damage) }
  }

  /// Adds the location of a packed record.
  mutating func add(packed place: PackedPlace?) {
    guard let place else { return }
    add("pack", place.pack)
    add("chunk", place.chunk)
    add("offset", place.offset)
    add("sequence", place.sequence)
  }

  /// Adds the rule that a damaged record violates.
  mutating func add(_ damage: RecordError) {
    add("error", damage.name)
    add("code", damage.code)
  }
}
