extension Duration {
  /// The number of whole seconds, rounded up, and at most `Int64.max`.
  var secondsRoundedUp: Int64 {
    // `components` traps if the number of seconds exceeds 64 bits.
    guard self < .seconds(Int64.max) else { return .max }
    let (seconds, attoseconds) = components
    return attoseconds > 0 ? seconds + 1 : seconds
  }
}

/// Returns the `ttl` field for a time to live, or 0 for `nil`. Throws `invalidTimeToLive` if it is not above zero.
func storedTimeToLive(_ timeToLive: Duration?) throws(BlobStoreError) -> UInt64 {
  guard let timeToLive else { return 0 }
  guard timeToLive > .zero else {
    throw BlobStoreError(.invalidTimeToLive, "a time to live of \(timeToLive) is not above zero")
  }
  return UInt64(timeToLive.secondsRoundedUp)
}

extension Duration {
  /// The time to live of a blob that does not expire, so only a removal or a limit removes it.
  public static var never: Duration { .seconds(Int64.max) }
}
