/// - Returns: microseconds.
package func time(_ work: () throws -> Void) rethrows -> Double {
  let (seconds, attoseconds) = try ContinuousClock().measure(work).components
  return Double(seconds) * 1e6 + Double(attoseconds) / 1e12
}

/// The order in which contenders take their turns: in each round the opposite of the one before.
package func turns(of count: Int, in round: Int) -> [Int] {
  round.isMultiple(of: 2) ? Array(0..<count) : (0..<count).reversed()
}
