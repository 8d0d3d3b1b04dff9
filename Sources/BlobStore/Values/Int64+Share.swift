extension Int64 {
  /// A fraction of it, rounded down to a whole number, in thousandths: exact for amounts that no `Double` holds.
  func share(_ fraction: Double) -> Int64 {
    let thousandths = Int64((fraction * 1000).rounded())
    return self / 1000 * thousandths + self % 1000 * thousandths / 1000
  }
}
