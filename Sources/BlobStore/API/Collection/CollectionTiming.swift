package import Logging

extension BlobStore {
  /// When a scheduled collection makes its passes.
  public struct CollectionTiming: Hashable, Sendable {
    /// From the end of one pass to the start of the next. Less than `minimumInterval` is raised to it, with a logged
    /// warning. The default is SPTPersistentCache's.
    public var interval: Duration = .seconds(363)
    /// The most that chance adds to each interval; nil for a tenth of it.
    ///
    /// So programs that were started together do not stay in step. Below zero counts as zero.
    public var jitter: Duration?
    /// From the start of the schedule to its first pass.
    public var firstDelay: Duration = .zero

    /// The shortest interval: SPTPersistentCache's.
    public static let minimumInterval: Duration = .seconds(60)

    public init(interval: Duration = .seconds(363), jitter: Duration? = nil, firstDelay: Duration = .zero) {
      self.interval = interval
      self.jitter = jitter
      self.firstDelay = firstDelay
    }

    /// The interval that is kept.
    public var effectiveInterval: Duration { max(interval, Self.minimumInterval) }

    var effectiveJitter: Duration { max(jitter ?? effectiveInterval / 10, .zero) }

    package func warnIfRaised(_ logger: Logger) {
      guard effectiveInterval != interval else { return }
      logger.warning("a collection interval of \(interval) is raised to \(effectiveInterval)")
    }
  }
}
