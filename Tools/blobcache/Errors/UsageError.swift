/// A mistake in the call of the tool that the parser of arguments does not see.
///
/// The exit status is 64.
package struct UsageError: Error, CustomStringConvertible {
  package let description: String

  init(_ description: String) {
    self.description = description
  }
}
