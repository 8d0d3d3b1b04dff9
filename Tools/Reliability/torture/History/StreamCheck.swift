/// Holds what followers saw against what became of the blobs that they followed.
struct StreamCheck {
  /// What became of each value that was written to be seen meanwhile; `unknown` of a writer that was killed.
  private var endings: [UInt64: HistoryEntry.Outcome] = [:]
  private var looks: [HistoryEntry] = []

  /// Takes an entry, if it is one of streams.
  ///
  /// - Returns: whether it is.
  mutating func take(_ entry: HistoryEntry, _ report: inout RunReport) -> Bool {
    guard let kind = HistoryEntry.Kind(rawValue: entry.kind), kind.isOfStreams else { return false }
    let outcome = entry.returned == 0 ? .unknown : HistoryEntry.Outcome(rawValue: entry.outcome) ?? .unknown
    switch (kind, outcome) {
    case (.stream, _):
      endings[entry.stored] = outcome
      report.streams += 1
    case (.follow, .loaded): report.followed += 1
    case (.follow, .broken): report.broken += 1
    case (.follow, .stalled): report.stalled += 1
    default: break
    }
    if kind != .stream { looks.append(entry) }
    return true
  }

  /// - Returns: what is wrong.
  var findings: [String] {
    looks.compactMap { look in
      guard look.returned > 0, look.loaded > 0, let outcome = HistoryEntry.Outcome(rawValue: look.outcome) else {
        return nil
      }
      let isFollowed = look.kind == HistoryEntry.Kind.follow.rawValue
      guard let ending = endings[look.loaded] else { return "value \(look.loaded) of a stream was never written" }
      let mayBe: [HistoryEntry.Outcome] =
        switch outcome {
        // What has lost its place is whole for its followers.
        case .loaded: isFollowed ? [.done, .overtaken, .unknown] : [.done, .unknown]
        case .broken: [.givenUp, .unknown]
        default: [ending]
        }
      return mayBe.contains(ending)
        ? nil : "a \(isFollowed ? "follower" : "load") of value \(look.loaded), \(ending), is told \(outcome)"
    }
  }
}
