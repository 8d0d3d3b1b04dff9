/// How much is evicted at a time: so much, or so many, whichever comes first.
struct EvictionPortion {
  let bytes: Int64
  let files: Int64

  /// So many portions fill the recycling bin.
  static let perBin: Int64 = 4
  /// Of a directory with more records, no portions are evicted.
  static let mostRecords = Int64(NextVictims.capacity) * 8
  /// A thread for fewer records than these is not worth it.
  private static let leastFiles: Int64 = 8

  func isReached(files evicted: Int64, bytes freed: Int64) -> Bool {
    evicted >= Self.leastFiles && (evicted >= files || freed >= bytes)
  }

  /// Whether that is less than fills the bin.
  func isLessThanBin(files count: Int64, bytes: Int64) -> Bool {
    count / Self.perBin < files && bytes / Self.perBin < self.bytes
  }
}
