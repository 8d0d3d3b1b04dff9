/// How slices are fetched and stored.
public struct SliceOptions: Hashable, Sendable {
  /// The time to live of each slice, rounded up to whole seconds; nil for the default expiration, counted from last
  /// access.
  public var ttl: Duration?
  /// Bytes that one call of the closure is asked for at the most. Below the size of a slice, it is one slice.
  ///
  /// So much is in memory for each call under way.
  public var requestSize = 8 << 20
  /// Bytes behind those that are read which are fetched meanwhile, by four calls at a time; 0 for none.
  public var readAhead = 0
  /// Whether fetched bytes that cannot be stored are answered all the same.
  ///
  /// An event (`writeFailed`) and the log tell of it. If false, the store's error is thrown.
  public var answersUnstored = false

  public init(
    ttl: Duration? = nil, requestSize: Int = 8 << 20, readAhead: Int = 0, answersUnstored: Bool = false
  ) {
    self.ttl = ttl
    self.requestSize = requestSize
    self.readAhead = readAhead
    self.answersUnstored = answersUnstored
  }
}
