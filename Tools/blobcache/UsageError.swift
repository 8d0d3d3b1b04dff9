/// What is wrong with the way the tool was called, where the parser of the arguments does not see it: exit status 64.
struct UsageError: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}
