#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// A Zipf distribution: number `n` has a probability in proportion to 1 / (n + 1)^exponent.
public struct Zipf: Sendable {
  /// The cumulative weights.
  private let sums: [Double]

  public init(count: Int, exponent: Double) {
    var sum = 0.0
    sums = (1...count).map { rank in
      sum += pow(Double(rank), -exponent)
      return sum
    }
  }

  public func next(using generator: inout some RandomNumberGenerator) -> Int {
    let point = Double.random(in: 0..<sums[sums.count - 1], using: &generator)
    var (low, high) = (0, sums.count - 1)
    while low < high {
      let middle = (low + high) / 2
      if sums[middle] > point { high = middle } else { low = middle + 1 }
    }
    return low
  }
}
