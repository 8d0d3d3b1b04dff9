import Measuring

/// The times of one operation for the store and for its baseline, by round.
struct Comparison {
  let operation: Operation
  /// The payload's size in bytes.
  let size: Int
  let store: String
  let baseline: String
  /// Microseconds per operation, with one element per round. The times of a round were measured back to back.
  var storeTimes: [Double] = []
  var baselineTimes: [Double] = []

  /// The quartiles of the rounds' ratios. A disturbance that slows both sides of a round leaves its ratio unchanged,
  /// so the median ratio is more stable than the ratio of the medians.
  var ratios: Quartiles { Quartiles(of: zip(storeTimes, baselineTimes).map { $0 / $1 }) }
  var storeTime: Double { Quartiles(of: storeTimes).median }
  var baselineTime: Double { Quartiles(of: baselineTimes).median }
}
