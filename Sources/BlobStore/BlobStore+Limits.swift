internal import BlobRecord
internal import PosixFiles

extension BlobStore {
  /// Removes what has to go for the directory to be within its limits: records that an earlier walk has found to be
  /// next, if there are enough of them, else by a whole collection, which finds others.
  ///
  /// - Returns: whether the limits are kept now, as far as this can tell.
  func keepLimits(
    _ options: CollectionOptions, _ victims: inout NextVictims, isSpared: @escaping (UInt64) -> Bool
  ) throws -> Bool {
    try withCollectorLock(options) { control in
      guard let control, let limit = StoreLimit(configuration, quarantineBytes: quarantineByteLimit) else {
        return true
      }
      // Another process may have made room meanwhile.
      if control.countersAreKnown, let usage = control.counters, !limit.isExceeded(by: usage) { return true }
      if control.countersAreKnown, !victims.isEmpty {
        let pass = CollectionPass(store: self, options: options, control: control)
        pass.isSpared = isSpared
        try timed(pass, isPass: false) { try pass.evict(&victims) }
        if pass.report.wasStopped { return true }
        if let usage = control.counters, !limit.isExceeded(by: usage) { return true }
      }
      let pass = CollectionPass(store: self, options: options, control: control)
      pass.isSpared = isSpared
      pass.nextVictims = NextVictims()
      try timed(pass, isPass: true) {
        try correctingCounters {
          try pass.run(since: .now)
          return pass.enumeration
        }
      }
      victims = pass.nextVictims ?? NextVictims()
      if pass.report.wasStopped { return true }
      let left = UsageEstimate(records: pass.report.recordsAfter, bytes: pass.report.bytesAfter)
      return control.countersAreKnown && !limit.isExceeded(by: left)
    }
  }

  /// Runs a collection, takes its time and records it.
  func timed(_ pass: CollectionPass, isPass: Bool, _ body: () throws -> Void) rethrows {
    let start = ContinuousClock.now
    collectionObservation.observer?.willBegin()
    try body()
    pass.report.seconds = start.duration(to: .now) / .seconds(1)
    collectionObservation.observer?.didEnd(pass.report)
    guard configuration.recordsCollections, !pass.options.dryRun else { return }
    pass.control?.record(pass.report, isPass: isPass, at: configuration.now())
  }

  /// Waits for the collection that a store may have started: for tests, which look at what it has left.
  package func waitForCollection() { keeper?.waitUntilIdle() }
}

extension CollectionPass {
  /// Removes records that were found to be next by an earlier walk, until by the counters the limits' targets are
  /// reached.
  func evict(_ victims: inout NextVictims) throws {
    guard let control, let root = try store.root.opened() else { return }
    let fraction = store.configuration.evictionTarget
    let bytes = store.configuration.sizeLimit.map { $0.share(fraction) } ?? .max
    let records = store.configuration.countLimit.map { $0.share(fraction) } ?? .max
    let subdirectories = LastSubdirectory(root)
    while !isStopped, let usage = control.counters, usage.bytes > bytes || usage.records > records,
      let victim = victims.next()
    {
      surviving { try evict(victim, in: subdirectories) }
    }
  }
}
