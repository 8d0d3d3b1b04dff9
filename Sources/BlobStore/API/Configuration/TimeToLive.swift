extension Duration {
  /// Whole seconds, rounded up, held at `Int64.max`.
  var secondsRoundedUp: Int64 {
    // `components` traps where the seconds are more than 64 bits hold.
    guard self < .seconds(Int64.max) else { return .max }
    let (seconds, attoseconds) = components
    return attoseconds > 0 ? seconds + 1 : seconds
  }
}

/// The `ttl` field for a time to live.
///
/// - Parameter timeToLive: nil for the store's default expiration, which is stored as 0.
/// - Throws: `invalidTimeToLive` for zero or less.
func storedTimeToLive(_ timeToLive: Duration?) throws(BlobStoreError) -> UInt64 {
  guard let timeToLive else { return 0 }
  guard timeToLive > .zero else {
    throw BlobStoreError(.invalidTimeToLive, "a time to live of \(timeToLive) is not above zero")
  }
  return UInt64(timeToLive.secondsRoundedUp)
}

extension Duration {
  /// The time to live of a blob that does not expire: only a removal or a limit takes it.
  public static var never: Duration { .seconds(Int64.max) }
}
