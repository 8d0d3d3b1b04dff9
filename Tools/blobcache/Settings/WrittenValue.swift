package import ArgumentParser

/// A value that people write in one of several forms.
package protocol WrittenValue: ExpressibleByArgument {
  /// The accepted values, in words that follow "must be".
  static var forms: String { get }
}

extension WrittenValue {
  /// Reads an option's value, or names the forms that are accepted.
  @Sendable package static func read(_ text: String) throws -> Self {
    guard let value = Self(argument: text) else { throw ValidationError("it must be \(forms)") }
    return value
  }
}
