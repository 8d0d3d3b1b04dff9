import Foundation
import Measuring
import Workbench

/// The conditions besides the code that influence the results.
struct PackConditions: Encodable {
  let type = "conditions"
  let system = ProcessInfo.processInfo.operatingSystemVersionString
  let processors = ProcessInfo.processInfo.activeProcessorCount
  let user = geteuid()
  let rounds: Int
  let records: Int
  /// The load averages of the last minute at the start and the end. Above the number of processors, there was other
  /// load.
  let loadBefore = load()
  var loadAfter = 0.0

  static func load() -> Double {
    var average = 0.0
    return getloadavg(&average, 1) == 1 ? average : .nan
  }
}

/// The results of a run, compared with the limits.
struct PackReport {
  private let conditions: PackConditions
  private let figures: [PackFigure]
  private let limits: [PackLimit]

  init(_ conditions: PackConditions, _ figures: [PackFigure], _ limits: [PackLimit]) {
    self.conditions = conditions
    self.figures = figures
    self.limits = limits
  }

  private func limit(of figure: PackFigure) -> PackLimit? { limits.first { $0.figure == figure.name } }

  var missed: [PackFigure] {
    figures.filter { figure in limit(of: figure)?.isMissed(by: figure.median) ?? false }
  }

  /// The conditions and a table, which shows the quartiles of the values.
  var text: String {
    let rows = figures.map { figure in
      let quartiles = Quartiles(of: figure.values)
      let isAlone = figure.values.count == 1
      return [
        figure.title, Self.fixed(quartiles.median), figure.unit, isAlone ? "" : Self.fixed(quartiles.lower),
        isAlone ? "" : Self.fixed(quartiles.upper), told(limit(of: figure), quartiles.median),
      ]
    }
    return """
      \(conditions.processors) processors, \(conditions.system)
      as user \(conditions.user)
      load average \(Self.fixed(conditions.loadBefore)) before, \(Self.fixed(conditions.loadAfter)) after
      \(conditions.rounds) rounds, \(conditions.records) records in the large cache

      \(TextTable(titles: ["packs", "value", "", "q1", "q3", "limit"], rows: rows, texts: [0, 2, 5]))
      """
  }

  private func told(_ limit: PackLimit?, _ value: Double) -> String {
    guard let limit else { return "" }
    let bounds = [
      limit.maximum.map { "at most \(Self.fixed($0))" }, limit.minimum.map { "at least \(Self.fixed($0))" },
    ]
    return bounds.compactMap { $0 }.joined(separator: ", ") + (limit.isMissed(by: value) ? " missed" : "")
  }

  private static func fixed(_ value: Double) -> String { String(format: "%.3f", value) }

  private struct Result: Encodable {
    let type = "result"
    let figure, title, unit: String
    let value, lowerQuartile, upperQuartile: Double
    let maximum, minimum: Double?
  }

  /// Returns one object per line: first the conditions, then the figures.
  func json() throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    let results = figures.map { figure in
      let quartiles = Quartiles(of: figure.values)
      let limit = limit(of: figure)
      return Result(
        figure: figure.name, title: figure.title, unit: figure.unit, value: quartiles.median,
        lowerQuartile: quartiles.lower, upperQuartile: quartiles.upper, maximum: limit?.maximum,
        minimum: limit?.minimum)
    }
    return try results.reduce(into: encoder.encode(conditions) + Data("\n".utf8)) { data, result in
      data += try encoder.encode(result) + Data("\n".utf8)
    }
  }
}
