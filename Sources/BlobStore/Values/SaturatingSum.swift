extension Int64 {
  /// Returns the sum, clamped to the range of the type.
  ///
  /// File systems allow sparse files of almost 2^63 bytes, and the sum of two must not end the process.
  package func saturatingAdding(_ other: Int64) -> Int64 {
    let (sum, overflow) = addingReportingOverflow(other)
    return overflow ? (other > 0 ? .max : .min) : sum
  }

  package func saturatingSubtracting(_ other: Int64) -> Int64 {
    let (difference, overflow) = subtractingReportingOverflow(other)
    return overflow ? (other > 0 ? .min : .max) : difference
  }

  package mutating func saturatingAdd(_ other: Int64) {
    self = saturatingAdding(other)
  }

  /// Returns a fraction, rounded down, in exact thousandths even for amounts that a `Double` cannot represent.
  func share(_ fraction: Double) -> Int64 {
    let thousandths = Int64((fraction * 1000).rounded())
    return self / 1000 * thousandths + self % 1000 * thousandths / 1000
  }
}
