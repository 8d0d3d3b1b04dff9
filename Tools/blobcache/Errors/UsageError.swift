/// A mistake in the call of the tool that the parser of arguments does not see.
///
/// The exit status is 64.
struct UsageError: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}
