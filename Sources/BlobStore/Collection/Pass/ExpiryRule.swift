internal import BlobRecord

/// The rule for removing a record because of its state.
struct ExpiryRule {
  /// The goal of a trim, which may exclude records by their age or size.
  private let goal: BlobStore.TrimGoal?
  private let time: @Sendable () -> UnixTime
  private let defaultExpiration: Int64

  init(goal: BlobStore.TrimGoal?, _ core: StoreCore) {
    self.goal = goal
    time = core.configuration.now
    defaultExpiration = core.defaultExpiration
  }

  func cause(toRemove entry: RecordEntry) -> CollectedRecord.Cause? {
    switch entry.state {
    case .expired: .expired
    case .damaged: isDue(damaged: entry) ? entry.damage.map { .damaged($0) } : nil
    case .live: excludes(entry.header) ? .evicted : nil
    case .locked, .streaming, .unreadable: nil
    }
  }

  func stillHolds(_ cause: CollectedRecord.Cause, for entry: RecordEntry) -> Bool {
    switch cause {
    case .expired: entry.state == .expired
    case .damaged: isDue(damaged: entry)
    // The record may have expired in the meantime.
    case .evicted: (entry.state == .live || entry.state == .expired) && excludes(entry.header)
    }
  }

  func excludes(_ header: RecordHeader?) -> Bool {
    guard let goal, let header else { return false }
    return goal.excludes(header)
  }

  private func isDue(damaged entry: RecordEntry) -> Bool {
    DamageRule(now: time(), defaultExpiration: defaultExpiration).isDue(entry)
  }
}

/// The rule for removing damaged files: files of this cache that were not written for a while, and abandoned streams.
struct DamageRule {
  let now: UnixTime
  let defaultExpiration: Int64

  func isDue(_ entry: RecordEntry) -> Bool {
    if entry.damage == .abandonedStream { return true }
    guard entry.state == .damaged, now > entry.modified.advanced(bySeconds: defaultExpiration) else { return false }
    switch entry.damage {
    case .notEnoughDataToGetHeader, .invalidHeaderCRC, .wrongPayloadSize, .keyMismatch, .writableByOthers: return true
    // A power failure may leave a record of zeros; any other file without the magic number may be a user's file.
    case .magicMismatch: return entry.storedHeader?.isAllZero ?? false
    // The file may be a record of a later version.
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
