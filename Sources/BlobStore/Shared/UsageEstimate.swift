internal import Logging
internal import Posix

extension BlobStore {
  /// What the counters of a directory say: an estimate that every whole collection corrects.
  public struct UsageEstimate: Hashable, Sendable {
    /// Record files, damaged ones among them.
    public var records: Int64 = 0
    /// Their bytes, headers included.
    public var bytes: Int64 = 0
    public var lockedRecords: Int64 = 0
    public var lockedBytes: Int64 = 0

    public init(records: Int64 = 0, bytes: Int64 = 0, lockedRecords: Int64 = 0, lockedBytes: Int64 = 0) {
      self.records = records
      self.bytes = bytes
      self.lockedRecords = lockedRecords
      self.lockedBytes = lockedBytes
    }
  }
}

extension BlobStore.UsageEstimate {
  static func - (a: BlobStore.UsageEstimate, b: BlobStore.UsageEstimate) -> BlobStore.UsageEstimate {
    BlobStore.UsageEstimate(
      records: a.records &- b.records, bytes: a.bytes &- b.bytes, lockedRecords: a.lockedRecords &- b.lockedRecords,
      lockedBytes: a.lockedBytes &- b.lockedBytes)
  }

  static func + (a: BlobStore.UsageEstimate, b: BlobStore.UsageEstimate) -> BlobStore.UsageEstimate {
    a - (BlobStore.UsageEstimate() - b)
  }

  /// What one record file counts for; nil counts for nothing.
  init(_ record: RecordSize?) {
    guard let record else { return }
    records = 1
    bytes = record.bytes
    lockedRecords = record.isLocked ? 1 : 0
    lockedBytes = record.isLocked ? record.bytes : 0
  }
}

/// A record file as the counters see it.
struct RecordSize {
  var bytes: Int64
  var isLocked: Bool
}

extension BlobStore {
  /// What the directory holds by the counters that every change keeps, without looking at a record.
  ///
  /// - Returns: nil if they are not known: before the first whole collection, or where there is no control file.
  /// - Complexity: O(1).
  public func usageEstimate() throws(BlobStoreError) -> UsageEstimate? {
    try reporting("usageEstimate") { try core.usageEstimate() }
  }
}

extension StoreCore {
  func usageEstimate() throws -> BlobStore.UsageEstimate? {
    guard let open = try root.opened() else { return BlobStore.UsageEstimate() }
    guard let control = countersFile(of: open), control.countersAreKnown else { return nil }
    return control.counters
  }

  /// What an enumeration of the whole directory has come to.
  struct Enumeration {
    /// What is there, without what the enumeration itself has removed.
    var left: BlobStore.UsageEstimate
    /// What it has removed.
    var removed = BlobStore.UsageEstimate()
    /// Whether nothing was met that may be a record of another layout.
    var isOfOneLayout = true
  }

  /// Corrects the counters, if there are any, by what `enumerate` finds; nil if that was not everything.
  func correctingCounters(unless isStopped: () -> Bool, _ enumerate: () throws -> Enumeration?) throws {
    let (control, start) = try settled(unless: isStopped)
    guard let found = try enumerate(), let control, let start else { return }
    // By another layout, or naming, records are foreign files.
    guard control.hint.map({ $0.layout == configuration.layout }) ?? found.isOfOneLayout else { return }
    control.correctCounters(to: found.left, since: start - found.removed)
  }

  /// The control file, if there is one that may be written to, and what it counts.
  private func settled(unless isStopped: () -> Bool) throws -> (ControlFile?, BlobStore.UsageEstimate?) {
    guard let open = try root.opened(), let control = countersFile(of: open) else { return (nil, nil) }
    // A process that is stopped in the middle of a change holds up no enumeration for long.
    return (control, try control.settledCounters(in: open.directory, within: patience, unless: isStopped))
  }

  /// Whether this library, of this version or a later one, has changed the directory.
  func hasControlFile() throws -> Bool {
    guard let open = try root.opened(), let control = countersFile(of: open) else { return false }
    return !control.file.isDamaged && !control.file.mayBePlanted
  }

  func countersFile(of open: OpenRoot) -> ControlFile? {
    do {
      return try open.controlFile(configuration.logger)
    } catch {
      // A directory that cannot be written to, or whose control file is none, is enumerated all the same.
      configuration.logger.debug("\(BlobStoreError(error, operation: "count", key: nil))")
      return nil
    }
  }
}
