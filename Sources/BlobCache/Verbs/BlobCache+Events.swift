extension BlobCache {
  /// The events of the cache from now on.
  ///
  /// There may be many listeners, and each gets all events. A slow one loses the oldest events beyond 256. The stream
  /// ends when the cache is closed.
  ///
  /// Without a listener no event is made. A dashboard's counters are better served by the trait `Metrics`.
  public var events: AsyncStream<CacheEvent> { events(bufferSize: 256) }

  /// The events of the cache from now on, with another buffer.
  ///
  /// - Parameter bufferSize: events that wait for the listener at the most; at least one.
  public func events(bufferSize: Int) -> AsyncStream<CacheEvent> {
    engine.observer.events.events(bufferSize: bufferSize)
  }
}
