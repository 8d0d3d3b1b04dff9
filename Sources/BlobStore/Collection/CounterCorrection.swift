internal import BlobRecord

/// The result of an enumeration of the whole directory.
struct Enumeration {
  /// The records that are there, without those that the enumeration itself has removed.
  var left = BlobStore.UsageEstimate()
  /// The records that it has removed.
  var removed = BlobStore.UsageEstimate()
  /// False if a file was met that may be a record of another layout.
  var isOfOneLayout = true
}

/// Corrects the counters of a directory by what an enumeration finds.
struct CounterCorrection {
  /// The control file, if it may be written to, and what it counted before the enumeration.
  private let counters: (control: ControlFile, start: CounterReading)?
  /// By which records were told from foreign files.
  private let layout: RecordLayout?

  /// Waits, for a short time, for a moment without changes.
  init(of core: StoreCore, unless isStopped: () -> Bool) throws {
    let open = try core.root.opened()
    layout = open.map { core.layout(of: $0) }
    guard let open, let control = core.countersFile(of: open),
      // A process that is stopped in the middle of a change holds up no enumeration for long.
      let start = try core.stripes.settledCounters(of: control, within: core.patience, unless: isStopped)
    else {
      counters = nil
      return
    }
    counters = (control, start)
  }

  /// - Parameter found: nil if that was not everything.
  func apply(_ found: Enumeration?) {
    guard let found, let (control, start) = counters else { return }
    // By another layout, or naming, records are foreign files.
    guard control.hint.map({ $0.layout == layout }) ?? found.isOfOneLayout else { return }
    control.correctCounters(to: found.left, removed: found.removed, since: start)
  }
}
