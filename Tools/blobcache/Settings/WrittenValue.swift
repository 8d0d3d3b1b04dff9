package import ArgumentParser

/// A value that users write in one of several forms.
package protocol WrittenValue: ExpressibleByArgument {
  /// A description of the accepted values that can follow "must be".
  static var forms: String { get }
}

extension WrittenValue {
  /// Parses the value of an option, or throws an error that describes the accepted forms.
  @Sendable package static func read(_ text: String) throws -> Self {
    guard let value = Self(argument: text) else { throw ValidationError("it must be \(forms)") }
    return value
  }
}
