/// The lower quartile, the median and the upper quartile of some values.
public struct Quartiles: Sendable {
  public let lower: Double
  public let median: Double
  public let upper: Double

  /// - Parameter values: At least one value.
  public init(of values: [Double]) {
    let sorted = values.sorted()
    func quantile(_ fraction: Double) -> Double {
      let position = fraction * Double(sorted.count - 1)
      let below = Int(position)
      let above = min(below + 1, sorted.count - 1)
      return sorted[below] + (sorted[above] - sorted[below]) * (position - Double(below))
    }
    lower = quantile(0.25)
    median = quantile(0.5)
    upper = quantile(0.75)
  }
}
