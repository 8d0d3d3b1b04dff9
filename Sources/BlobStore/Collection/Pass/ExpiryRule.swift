internal import BlobRecord

/// Which records a collection removes for their own state, and why.
struct ExpiryRule {
  /// A trim's; it may exclude records by their age or size.
  private let goal: BlobStore.TrimGoal?
  private let time: @Sendable () -> UnixTime
  private let defaultExpiration: Int64

  init(goal: BlobStore.TrimGoal?, _ core: StoreCore) {
    self.goal = goal
    time = core.configuration.now
    defaultExpiration = core.defaultExpiration
  }

  /// Why a record must go; nil if it may stay.
  func cause(toRemove entry: RecordEntry) -> CollectedRecord.Cause? {
    switch entry.state {
    case .expired: .expired
    case .damaged: isDue(damaged: entry) ? entry.damage.map { .damaged($0) } : nil
    case .live: excludes(entry.header) ? .evicted : nil
    case .locked, .streaming, .unreadable: nil
    }
  }

  /// Whether a record that had to go for this still has to.
  func stillHolds(_ cause: CollectedRecord.Cause, for entry: RecordEntry) -> Bool {
    switch cause {
    case .expired: entry.state == .expired
    case .damaged: isDue(damaged: entry)
    // It may have expired since.
    case .evicted: (entry.state == .live || entry.state == .expired) && excludes(entry.header)
    }
  }

  /// Whether the goal, if there is one, leaves no place for such a record.
  func excludes(_ header: RecordHeader?) -> Bool {
    guard let goal, let header else { return false }
    return goal.excludes(header)
  }

  private func isDue(damaged entry: RecordEntry) -> Bool {
    DamageRule(now: time(), defaultExpiration: defaultExpiration).isDue(entry)
  }
}

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
