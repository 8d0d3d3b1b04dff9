internal import ArgumentParser
internal import BlobStore
internal import Posix

/// What could not be done, where the tool itself finds out: exit status 2.
struct CommandFailure: Error, CustomStringConvertible {
  let description: String

  init(_ description: String) {
    self.description = description
  }
}

extension BlobStoreError {
  /// What failed, in the words of the subcommand.
  ///
  /// The library's own name of an operation, such as `removeAll`, means nothing to users of the tool.
  func text(for subcommand: String) -> String {
    let subject = key.map { "\(subcommand) \"\($0.string)\"" } ?? subcommand
    let wayOut = code == .worldWritableDirectory ? "; --allow-world-writable uses it all the same" : ""
    let text = ([subject, message + wayOut] + (path.map { [$0.string] } ?? [])).joined(separator: ": ")
    return isLackOfRoom ? text + "; blobcache collect, with --size-limit or --empty-bin, makes room" : text
  }

  private var isLackOfRoom: Bool { code == .fileSystem && [.noSpace, .diskQuotaExceeded].contains(errno) }
}

extension Subcommand {
  static func text(of error: any Error) -> String {
    let name = configuration.commandName ?? ""
    return switch error {
    case let error as BlobStoreError: error.text(for: name)
    case let error as FileError: "\(name): \(error)"
    default: "\(error)"
    }
  }
}
