extension BlobCache {
  /// What the cache does from now on, for as long as somebody listens. Any number may; each gets all events, and who does
  /// not keep up loses the oldest beyond 256. It ends when the cache is closed by all who hold it.
  ///
  /// Without a listener no event is made. A dashboard's counters are better served by the trait `Metrics`.
  public var events: AsyncStream<CacheEvent> { events(bufferSize: 256) }

  /// The same with another buffer.
  ///
  /// - Parameter bufferSize: events that wait for the listener at the most; at least one.
  public func events(bufferSize: Int) -> AsyncStream<CacheEvent> {
    engine.observer.events.events(bufferSize: bufferSize)
  }
}
