/// Compares the observations of followers with the fate of the blobs that they followed.
struct StreamCheck {
  /// The outcome of each value that was visible while it was written, which is `unknown` if its writer was killed.
  private var endings: [UInt64: HistoryEntry.Outcome] = [:]
  private var looks: [HistoryEntry] = []

  /// Takes an entry if it concerns a stream.
  ///
  /// - Returns: A Boolean value that indicates whether the entry was taken.
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

  /// Descriptions of the violations.
  var findings: [String] {
    looks.compactMap { look in
      guard look.returned > 0, look.loaded > 0, let outcome = HistoryEntry.Outcome(rawValue: look.outcome) else {
        return nil
      }
      let isFollowed = look.kind == HistoryEntry.Kind.follow.rawValue
      guard let ending = endings[look.loaded] else { return "value \(look.loaded) of a stream was never written" }
      let mayBe: [HistoryEntry.Outcome] =
        switch outcome {
        // A blob that was replaced is still complete for its followers.
        case .loaded: isFollowed ? [.done, .superseded, .unknown] : [.done, .unknown]
        case .broken: [.givenUp, .unknown]
        default: [ending]
        }
      return mayBe.contains(ending)
        ? nil : "a \(isFollowed ? "follower" : "load") of value \(look.loaded), \(ending), is told \(outcome)"
    }
  }
}
