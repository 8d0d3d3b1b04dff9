extension Int64 {
  /// The sum, held at the ends of the type.
  ///
  /// File systems take sparse files of almost 2^63 bytes, and two of those must not end the process.
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

  /// A fraction of it, rounded down to a whole number, in thousandths: exact for amounts that no `Double` holds.
  func share(_ fraction: Double) -> Int64 {
    let thousandths = Int64((fraction * 1000).rounded())
    return self / 1000 * thousandths + self % 1000 * thousandths / 1000
  }
}
