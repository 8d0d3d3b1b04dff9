/// What operations did to a directory, in order.
package struct Recording: Sendable {
  package enum Event: Hashable, Sendable {
    case change(DiskChange)
    case began(Int)
    case ended(Int)
  }

  /// What was on the medium when it began.
  package var base: DiskImage
  package var events: [Event] = []

  /// The recording of a program that leaves certain syncs out: the mistakes that the checks must notice.
  package func withoutSyncs(ofDirectories: Bool) -> Recording {
    var changed = self
    changed.events.removeAll { event in
      guard case .change(.sync(_, let isDirectory)) = event else { return false }
      return isDirectory == ofDirectories
    }
    return changed
  }
}
