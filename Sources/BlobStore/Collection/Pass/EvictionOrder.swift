internal import BlobRecord

/// The order in which records are evicted: each record has a place in time, and earlier places are evicted first.
///
/// Only this type ranks records; every step of the size pass uses its order. With `frequency`, a record that was used
/// n times ages n² times slower: its place is the time since its last use, divided by n², before now. A record that
/// was used once ages eight times faster. With `oldest`, the place is the update time. Spec/Uses.md gives the reasons.
struct EvictionOrder {
  private let eviction: BlobStore.Eviction
  /// `nil` if uses are not counted.
  private let sketch: UseSketch?
  private let now: UnixTime
  private let clock: @Sendable () -> UnixTime
  /// The digests of records whose update time the pass has corrected, so that their age is unknown.
  private var distrusted: Set<UInt64> = []

  /// The maximum number of stored digests. Further records keep their usual place.
  private static let mostDistrusted = 4096
  /// The maximum difference between the clocks of processes, in seconds.
  private static let clockTolerance: Int64 = 60

  init(_ configuration: BlobStore.Configuration, _ sketch: UseSketch?, now: UnixTime) {
    eviction = configuration.limits.eviction
    self.sketch = configuration.limits.eviction == .frequency ? sketch : nil
    self.now = now
    clock = configuration.now
  }

  /// Moves a record before all others because a clock that was ahead has stamped it.
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
      // Another process may have stored the record in the meantime. A clock that was ahead gives no information.
      guard last <= clock().advanced(bySeconds: Self.clockTolerance) else { return Self.placeOfAhead(last) }
      last = now
    }
    if let use = uses.last, use > last { last = min(use, now) }
    let age = now.seconds.subtractingReportingOverflow(last.seconds)
    // A record that was just stored has the age of one second, so that its uses count too.
    return Self.place((Double(age.overflow ? .max : age.partialValue) + 1) / Self.slowness(uses.count))
  }

  /// The factor by which a record ages more slowly. Most records that were used once are never requested again.
  private static func slowness(_ count: Int) -> Double { count > 1 ? Double(count * count) : 0.125 }

  /// Returns a place before the places of all ages; the time furthest ahead is first.
  private static func placeOfAhead(_ time: UnixTime) -> UnixTime { place(0x1p64 * Double(max(time.seconds, 1))) }

  /// Returns a place that is earlier for a larger number. The bits of positive floating-point numbers have the same
  /// order as the numbers, with a million steps per doubling. Therefore, a histogram with a very old record still
  /// distinguishes records of one day.
  private static func place(_ distance: Double) -> UnixTime {
    UnixTime(seconds: -Int64(distance.bitPattern >> 32))
  }

  /// The inverse of `place`, to the precision of a place.
  private static func distance(of place: UnixTime) -> Double {
    Double(bitPattern: UInt64(clamping: Int64(0).saturatingSubtracting(place.seconds)) << 32)
  }

  func step(of place: UnixTime) -> EvictionStep {
    let distance: Double
    switch eviction {
    case .oldest: distance = Double(max(0, now.seconds.saturatingSubtracting(place.seconds))) + 1
    case .frequency: distance = Self.distance(of: place)
    }
    return EvictionStep(distance: distance)
  }

  func wasUsed(_ digest: UInt64, since standing: EvictionStanding) -> Bool {
    sketch.map { $0.uses(of: digest).count > Int(standing.useCount) } ?? false
  }
}

/// A record's position in the order, as a pass has found it.
struct EvictionStanding {
  /// The place, which has a meaning only relative to other places.
  let place: UnixTime
  fileprivate let useCount: UInt8

  fileprivate init(place: UnixTime, useCount: UInt8) {
    self.place = place
    self.useCount = useCount
  }
}

extension EvictionOrder {
  init(of core: StoreCore, _ control: ControlFile?, at now: UnixTime) {
    // The pass itself reports a directory that cannot be opened.
    guard let control, let open = try? core.root.opened() else {
      self.init(core.configuration, nil, now: now)
      return
    }
    self.init(core.configuration, core.uses.withSketch(of: control, in: open) { $0 }, now: now)
  }
}
