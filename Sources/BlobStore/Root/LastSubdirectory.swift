internal import Posix

/// The last subdirectory that was asked for, kept open.
///
/// So a walk over many records of few subdirectories opens each once.
final class LastSubdirectory {
  let open: OpenRoot
  private var name: String?
  private var directory: Directory?

  init(_ open: OpenRoot) { self.open = open }

  /// - Returns: nil, without calling `body`, if there is no such subdirectory.
  func with<Result>(_ name: String, _ body: (borrowing Directory) throws -> Result?) throws -> Result? {
    if self.name.map({ !$0.hasSameBytes(as: name) }) ?? true {
      directory = try open.openSubdirectory(name)
      self.name = name
    }
    guard directory != nil else { return nil }
    return try body(directory!)
  }
}
