internal import ArgumentParser
internal import BlobStore
internal import Posix

/// A failure that the tool itself detects, with exit status 2.
package struct CommandFailure: Error, CustomStringConvertible {
  package let description: String

  package init(_ description: String) {
    self.description = description
  }
}

extension BlobStoreError {
  /// Returns the message of the failure with the name of the subcommand.
  ///
  /// The library's own names of operations, such as `removeAll`, are unknown to users of the tool.
  func text(for subcommand: String) -> String {
    let subject = key.map { "\(subcommand) \"\($0.string)\"" } ?? subcommand
    let text = ([subject, message] + (path.map { [$0.string] } ?? [])).joined(separator: ": ")
    return Remedy.text(for: self).map { "\(text); \($0)" } ?? text
  }
}

extension Subcommand {
  static func text(of error: any Error) -> String {
    let name = configuration.commandName ?? ""
    return switch error {
    case let error as BlobStoreError: error.text(for: name)
    case let error as FileError:
      "\(name): \(error)" + (Remedy.text(for: error.errno, at: error.path).map { "; \($0)" } ?? "")
    default: "\(error)"
    }
  }
}
