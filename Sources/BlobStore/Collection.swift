public import SystemPackage

/// How a collection is to be made.
public struct CollectionOptions: Sendable {
  /// Reports what would be removed, and removes nothing.
  public var dryRun = false
  /// How long the expiry pass may take; nil for as long as it takes. A pass that is cut short starts at a subdirectory
  /// chosen by chance, so that passes come round to all of them.
  public var maximumTime: Duration?

  public init(dryRun: Bool = false, maximumTime: Duration? = nil) {
    self.dryRun = dryRun
    self.maximumTime = maximumTime
  }
}

/// What a collection did; in a dry run, what it would have done.
public struct CollectionReport: Hashable, Sendable {
  public var directory: FilePath
  /// Record files looked at, damaged ones among them.
  public var examined: Int64 = 0
  /// Records removed because their time was over.
  public var expired: Int64 = 0
  /// Records removed to keep the size limit.
  public var evicted: Int64 = 0
  /// Damaged files removed.
  public var damaged: Int64 = 0
  /// Temporary files removed whose writers were gone.
  public var temporary: Int64 = 0
  /// Empty subdirectories removed.
  public var subdirectories: Int64 = 0
  /// Files that could not be read or removed; each was logged.
  public var failed: Int64 = 0
  /// Bytes of all that was removed.
  public var bytesFreed: Int64 = 0
  /// Bytes of the records and damaged files that are left, quarantine included.
  public var bytesAfter: Int64 = 0
  public var seconds: Double = 0
  /// Whether the expiry pass ran out of time before it had seen everything.
  public var wasCutShort = false
  public var dryRun = false

  public init(directory: FilePath) {
    self.directory = directory
  }
}
