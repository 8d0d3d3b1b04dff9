internal import BlobRecord

/// Which damaged files a collection may remove: the cache's own, unwritten for a while; an abandoned stream at any age.
struct DamageRule {
  let now: UnixTime
  let defaultExpiration: Int64

  func isDue(_ entry: RecordEntry) -> Bool {
    if entry.damage == .abandonedStream { return true }
    guard entry.state == .damaged, now > entry.modified.advanced(bySeconds: defaultExpiration) else { return false }
    switch entry.damage {
    case .notEnoughDataToGetHeader, .invalidHeaderCRC, .wrongPayloadSize, .keyMismatch, .writableByOthers: return true
    // A power cut may leave a record so; anything else without the magic may be a user's file.
    case .magicMismatch: return entry.storedHeader?.isAllZero ?? false
    // A later version's record.
    default: return false
    }
  }
}

extension StoredHeader {
  fileprivate var isAllZero: Bool {
    magic == 0 && headerSize == 0 && refCount == 0 && reserved1 == 0 && ttl == 0 && updateTime == 0
      && payloadSize == 0 && reserved2 == 0 && reserved3 == 0 && reserved4 == 0 && flags.isEmpty && crc == 0
  }
}
