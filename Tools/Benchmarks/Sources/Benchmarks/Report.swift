import Foundation
import Measuring
import Workbench

/// The results of a run, compared with the thresholds.
struct Report {
  struct Line {
    let comparison: Comparison
    /// The maximum ratio, or `nil` if no threshold applies.
    let limit: Double?

    var isMissed: Bool { limit.map { comparison.ratios.median > $0 } ?? false }
  }

  let conditions: Conditions
  let lines: [Line]
  /// The thresholds without a measurement.
  let unmeasured: [Threshold]

  init(_ conditions: Conditions, _ comparisons: [Comparison], _ thresholds: [Threshold]) {
    self.conditions = conditions
    lines = comparisons.map { comparison in
      Line(comparison: comparison, limit: thresholds.first { $0.applies(to: comparison) }?.maximum)
    }
    unmeasured = thresholds.filter { threshold in !comparisons.contains(where: threshold.applies) }
  }

  var missed: [Line] { lines.filter(\.isMissed) }
}

/// The conditions besides the code that influence the results.
struct Conditions: Encodable {
  let type = "conditions"
  let fileSystem: String
  let system = ProcessInfo.processInfo.operatingSystemVersionString
  let processors = ProcessInfo.processInfo.activeProcessorCount
  let rounds: Int
  let operations: Int
}

// MARK: - Table

extension Report {
  /// A table with aligned columns. Times are medians in microseconds; the ratio is the median of the rounds' ratios.
  var table: String {
    let titles = ["operation", "bytes", "store", "baseline", "store us", "base us", "ratio", "q1", "q3", "limit"]
    let rows = lines.map { line in
      let comparison = line.comparison
      let ratios = comparison.ratios
      return [
        comparison.operation.rawValue, "\(comparison.size)", comparison.store, comparison.baseline,
        Self.fixed(comparison.storeTime), Self.fixed(comparison.baselineTime), Self.fixed(ratios.median),
        Self.fixed(ratios.lower), Self.fixed(ratios.upper),
        line.limit.map { Self.fixed($0) + (line.isMissed ? " missed" : "") } ?? "",
      ]
    }
    let texts: Set = [0, 2, 3, 9]
    return TextTable(titles: titles, rows: rows, texts: texts).description
  }

  private static func fixed(_ value: Double) -> String { String(format: "%.2f", value) }
}

// MARK: - JSON

extension Report {
  private struct Ratio: Encodable {
    let type = "ratio"
    let operation: String
    let bytes: Int
    let store, baseline: String
    let storeMicroseconds, baselineMicroseconds: Double
    let ratio, lowerQuartile, upperQuartile: Double
    let limit: Double?
  }

  /// Returns one object per line: first the conditions, then the ratios.
  func json() throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    var data = try encoder.encode(conditions) + Data("\n".utf8)
    for line in lines {
      let comparison = line.comparison
      let ratios = comparison.ratios
      data += try encoder.encode(
        Ratio(
          operation: comparison.operation.rawValue, bytes: comparison.size, store: comparison.store,
          baseline: comparison.baseline, storeMicroseconds: comparison.storeTime,
          baselineMicroseconds: comparison.baselineTime, ratio: ratios.median, lowerQuartile: ratios.lower,
          upperQuartile: ratios.upper, limit: line.limit))
      data += Data("\n".utf8)
    }
    return data
  }
}
