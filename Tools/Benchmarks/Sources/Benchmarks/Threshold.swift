import Foundation

/// A promise: how much slower than its baseline the store may be.
struct Threshold: Decodable {
  let operation: String
  let store: String
  let baseline: String
  /// The largest median ratio.
  let maximum: Double

  static func read(from path: String) throws -> [Threshold] {
    try JSONDecoder().decode([Threshold].self, from: Data(contentsOf: URL(fileURLWithPath: path)))
  }

  /// Whether `--collection` measures its operation.
  var isOfCollections: Bool { Operation(rawValue: operation).map(Operation.ofCollections.contains) ?? false }

  /// Whether `--recycling` measures its operation.
  var isOfRecycling: Bool { Operation(rawValue: operation).map(Operation.ofRecycling.contains) ?? false }

  /// A threshold holds for every size. The number of records is a choice of the run's, so it is not compared.
  func applies(to comparison: Comparison) -> Bool {
    operation == comparison.operation.rawValue
      && (comparison.operation == .open || (store == comparison.store && baseline == comparison.baseline))
  }
}
