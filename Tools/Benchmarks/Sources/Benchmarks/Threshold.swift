import Foundation

/// A promise that limits the ratio of the store's time to the baseline's time.
struct Threshold: Decodable {
  let operation: String
  let store: String
  let baseline: String
  /// The maximum median ratio.
  let maximum: Double

  static func read(from path: String) throws -> [Threshold] {
    try JSONDecoder().decode([Threshold].self, from: Data(contentsOf: URL(fileURLWithPath: path)))
  }

  var isOfCollections: Bool { Operation(rawValue: operation).map(Operation.ofCollections.contains) ?? false }

  var isOfRecycling: Bool { Operation(rawValue: operation).map(Operation.ofRecycling.contains) ?? false }

  /// A threshold applies to every payload size. The number of records is an option of the run, so it is not compared.
  func applies(to comparison: Comparison) -> Bool {
    operation == comparison.operation.rawValue
      && (comparison.operation == .open || (store == comparison.store && baseline == comparison.baseline))
  }
}
