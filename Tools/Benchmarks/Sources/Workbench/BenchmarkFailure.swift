internal import Foundation

/// A failed call of the raw side, or an answer that shows that the two sides do not do the same.
package struct BenchmarkFailure: Error, CustomStringConvertible {
  package let description: String

  package init(_ description: String) { self.description = description }

  /// Checks the answer of a raw function.
  package static func check(_ result: some BinaryInteger, _ what: @autoclosure () -> String) throws {
    if result == -1 { throw BenchmarkFailure("\(what()): \(String(cString: strerror(errno)))") }
  }

  package static func require(_ condition: Bool, _ what: @autoclosure () -> String) throws {
    if !condition { throw BenchmarkFailure(what()) }
  }
}
