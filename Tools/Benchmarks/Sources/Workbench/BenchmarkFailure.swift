internal import Foundation

/// A failed call of the raw side, or a result that shows that the two sides do different work.
package struct BenchmarkFailure: Error, CustomStringConvertible {
  package let description: String

  package init(_ description: String) { self.description = description }

  /// Throws the error in `errno` if the result of a raw function is -1.
  package static func check(_ result: some BinaryInteger, _ what: @autoclosure () -> String) throws {
    if result == -1 { throw BenchmarkFailure("\(what()): \(String(cString: strerror(errno)))") }
  }

  package static func require(_ condition: Bool, _ what: @autoclosure () -> String) throws {
    if !condition { throw BenchmarkFailure(what()) }
  }
}
