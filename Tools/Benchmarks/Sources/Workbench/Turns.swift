/// - Returns: The duration in microseconds.
package func time(_ work: () throws -> Void) rethrows -> Double {
  let (seconds, attoseconds) = try ContinuousClock().measure(work).components
  return Double(seconds) * 1e6 + Double(attoseconds) / 1e12
}

/// Returns the order of the contenders' turns, which is reversed in each round.
package func turns(of count: Int, in round: Int) -> [Int] {
  round.isMultiple(of: 2) ? Array(0..<count) : (0..<count).reversed()
}
