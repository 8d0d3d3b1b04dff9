internal import BlobRecord

/// The order in which records go: each has a place in time, and the earliest places go first.
///
/// The only place that ranks records. The size pass measures by it, remembers by it, and walks by it.
/// With `frequency`, a record that was used n times ages n² times slower: its place is as long before now as it has not
/// been used, by n². One that was used once ages eight times faster. With `oldest`, the place is the update time.
/// Spec/Uses.md says why.
struct EvictionOrder {
  private let eviction: BlobStore.Eviction
  /// nil where no uses are counted.
  private let sketch: UseSketch?
  /// When the pass began.
  private let now: UnixTime
  private let clock: @Sendable () -> UnixTime
  /// Digests of records whose update time the pass has set right: nothing is known of when they were stored.
  private var distrusted: Set<UInt64> = []

  /// More are not remembered, and go in their turn.
  private static let mostDistrusted = 4096
  /// How far processes' clocks may differ, in seconds.
  private static let clockTolerance: Int64 = 60

  init(_ configuration: BlobStore.Configuration, _ sketch: UseSketch?, now: UnixTime) {
    eviction = configuration.limits.eviction
    self.sketch = configuration.limits.eviction == .frequency ? sketch : nil
    self.now = now
    clock = configuration.now
  }

  /// A record was stamped by a clock that was ahead: it goes before all that were not.
  mutating func distrust(_ digest: UInt64) {
    if distrusted.count < Self.mostDistrusted { distrusted.insert(digest) }
  }

  func standing(of header: RecordHeader, _ digest: UInt64) -> EvictionStanding {
    switch eviction {
    case .oldest:
      return EvictionStanding(place: header.isStampedAhead(of: now) ? now : header.lastUpdate, useCount: 0)
    case .frequency:
      let uses = sketch?.uses(of: digest) ?? UseSketch.Uses()
      let isTrusted = distrusted.isEmpty || !distrusted.contains(digest)
      let place = isTrusted ? place(lastUpdate: header.lastUpdate, uses) : Self.placeOfAhead(UnixTime(seconds: .max))
      return EvictionStanding(place: place, useCount: UInt8(uses.count))
    }
  }

  private func place(lastUpdate: UnixTime, _ uses: UseSketch.Uses) -> UnixTime {
    var last = lastUpdate
    if last > now {
      // Another process may have stored the record since the pass began. A clock that was ahead tells nothing.
      guard last <= clock().advanced(bySeconds: Self.clockTolerance) else { return Self.placeOfAhead(last) }
      last = now
    }
    if let use = uses.last, use > last { last = min(use, now) }
    let age = now.seconds.subtractingReportingOverflow(last.seconds)
    // Of what was stored just now the age is one second: uses count there too.
    return Self.place((Double(age.overflow ? .max : age.partialValue) + 1) / Self.slowness(uses.count))
  }

  /// By how much a record ages slower than time: one that was used once only ages faster, as most such are never asked for
  /// again.
  private static func slowness(_ count: Int) -> Double { count > 1 ? Double(count * count) : 0.125 }

  /// Before those of all ages, the furthest ahead first.
  private static func placeOfAhead(_ time: UnixTime) -> UnixTime { place(0x1p64 * Double(max(time.seconds, 1))) }

  /// A place that is the earlier the greater a number is.
  ///
  /// The bits of positive numbers are in their order, with a million steps to each doubling. So one record of another
  /// century leaves the others of a day apart in a histogram.
  private static func place(_ distance: Double) -> UnixTime {
    UnixTime(seconds: -Int64(distance.bitPattern >> 32))
  }

  /// The inverse of `place`, as nearly as a place tells.
  private static func distance(of place: UnixTime) -> Double {
    Double(bitPattern: UInt64(clamping: Int64(0).saturatingSubtracting(place.seconds)) << 32)
  }

  /// A place, coarsely.
  func step(of place: UnixTime) -> EvictionStep {
    let distance: Double
    switch eviction {
    case .oldest: distance = Double(max(0, now.seconds.saturatingSubtracting(place.seconds))) + 1
    case .frequency: distance = Self.distance(of: place)
    }
    return EvictionStep(distance: distance)
  }

  /// Whether a record was used since it had a standing.
  func wasUsed(_ digest: UInt64, since standing: EvictionStanding) -> Bool {
    sketch.map { $0.uses(of: digest).count > Int(standing.useCount) } ?? false
  }
}

/// Where a record stands in the order, as a pass has met it.
struct EvictionStanding {
  /// Only its relation to others' has a meaning.
  let place: UnixTime
  fileprivate let useCount: UInt8

  fileprivate init(place: UnixTime, useCount: UInt8) {
    self.place = place
    self.useCount = useCount
  }
}

extension EvictionOrder {
  /// The order in which a pass that begins now evicts records.
  init(of core: StoreCore, _ control: ControlFile?, at now: UnixTime) {
    // A directory that cannot be opened, the pass itself reports.
    guard let control, let open = try? core.root.opened() else {
      self.init(core.configuration, nil, now: now)
      return
    }
    self.init(core.configuration, core.uses.withSketch(of: control, in: open) { $0 }, now: now)
  }
}
