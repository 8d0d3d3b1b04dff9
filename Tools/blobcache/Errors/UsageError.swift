/// A mistake in the arguments that the parser does not detect.
///
/// The exit status is 64.
package struct UsageError: Error, CustomStringConvertible {
  package let description: String

  init(_ description: String) {
    self.description = description
  }
}
