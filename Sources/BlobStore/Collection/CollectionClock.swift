/// Takes the time of a collection, tells the observer of it, and records it in the directory.
struct CollectionClock {
  private let run: CollectionRun
  private let kind: CollectionKind
  private let start = ContinuousClock.now

  /// The collection begins.
  init(_ run: CollectionRun, _ kind: CollectionKind) {
    self.run = run
    self.kind = kind
    run.core.collectionObservation.observer?.willBegin()
  }

  /// The collection has come to its end. One that fails is neither told of nor recorded.
  func end() {
    let tally = run.tally
    tally.report.seconds = start.duration(to: .now) / .seconds(1) - tally.secondsMeanwhile
    run.core.collectionObservation.observer?.didEnd(tally.report)
    guard run.core.configuration.access.recordsCollections, !run.options.dryRun else { return }
    run.control?.record(tally.report, tally.evictions, kind, at: run.core.configuration.now())
  }
}
