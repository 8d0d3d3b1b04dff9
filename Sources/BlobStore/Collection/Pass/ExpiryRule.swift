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
