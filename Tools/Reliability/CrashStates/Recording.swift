/// The changes that operations made to a directory, in order.
package struct Recording: Sendable {
  package enum Event: Hashable, Sendable {
    case change(DiskChange)
    case began(Int)
    case ended(Int)
  }

  /// The content of the medium at the beginning.
  package var base: DiskImage
  package var events: [Event] = []

  /// Returns the recording of a program that omits certain syncs, a mistake that the checks must detect.
  package func withoutSyncs(ofDirectories: Bool) -> Recording {
    var changed = self
    changed.events.removeAll { event in
      guard case .change(.sync(_, let isDirectory)) = event else { return false }
      return isDirectory == ofDirectories
    }
    return changed
  }
}
