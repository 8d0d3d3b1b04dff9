import Measuring

/// What one operation cost the store and its baseline, round by round.
struct Comparison {
  let operation: Operation
  /// The payload's size in bytes.
  let size: Int
  let store: String
  let baseline: String
  /// Microseconds per operation, one element a round; those of one round were measured one right after the other.
  var storeTimes: [Double] = []
  var baselineTimes: [Double] = []

  /// The ratios of the rounds. What slows both sides of a round down leaves its ratio as it is, so their median is
  /// steadier than the ratio of the medians.
  var ratios: Quartiles { Quartiles(of: zip(storeTimes, baselineTimes).map { $0 / $1 }) }
  var storeTime: Double { Quartiles(of: storeTimes).median }
  var baselineTime: Double { Quartiles(of: baselineTimes).median }
}
