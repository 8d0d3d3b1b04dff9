import Foundation
import Measuring

/// A result of a measurement.
struct PackFigure {
  let name: String
  /// The description for readers.
  let title: String
  /// One value per round.
  let values: [Double]
  /// The unit, which is empty for a ratio.
  let unit: String

  init(_ name: String, _ title: String, _ values: [Double], _ unit: String = "") {
    self.name = name
    self.title = title
    self.values = values
    self.unit = unit
  }

  var median: Double { Quartiles(of: values).median }
}

/// A promise about a figure.
struct PackLimit: Decodable {
  let figure: String
  let minimum, maximum: Double?

  static func read(from path: String) throws -> [PackLimit] {
    try JSONDecoder().decode([PackLimit].self, from: Data(contentsOf: URL(fileURLWithPath: path)))
  }

  func isMissed(by value: Double) -> Bool { value > maximum ?? .infinity || value < minimum ?? -.infinity }
}
