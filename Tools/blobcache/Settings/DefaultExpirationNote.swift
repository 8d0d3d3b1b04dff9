internal import BlobStore

/// Reports the lifetime of a blob without a time to live, because it is shorter than most users expect.
enum DefaultExpirationNote {
  static func report(_ store: BlobStore) {
    let seconds = store.configuration.expiry.defaultTimeToLive.components.seconds
    StandardError.report(
      "stored without --ttl: expires \(TimeSpan(seconds: seconds)) after the last access; say --ttl 6h or --ttl never to change "
        + "that, --ttl 0 to keep it and not to be told")
  }
}
