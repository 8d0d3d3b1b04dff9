internal import BlobStore
internal import Posix
internal import SystemPackage

/// Detects directories that belong, in part or as a whole, to another user.
///
/// This occurs after a container's user has changed or the superuser has restored a backup.
enum ChangeOfOwner {
  /// Reports the directory's owner and the command that changes it, after a permission error.
  ///
  /// - Parameter error: The failure, or `nil` if it is known to be a permission error.
  static func report(_ directory: FilePath, after error: (any Error)? = nil) {
    if let error, !isLackOfPermission(error) { return }
    // The failure itself has been reported. An error here does not change it.
    guard let text = try? text(for: directory) else { return }
    StandardError.report(text)
  }

  private static func isLackOfPermission(_ error: any Error) -> Bool {
    switch error {
    case let error as BlobStoreError: error.errno == .permissionDenied || error.errno == .notPermitted
    case let error as FileError: error.errno == .permissionDenied || error.errno == .notPermitted
    default: false
    }
  }

  /// - Returns: The text, or `nil` if directory and entries belong to the user or to a group that shares it.
  private static func text(for directory: FilePath) throws -> String? {
    let user = Credentials.user
    guard user.rawValue != 0, let status = try Files().status(of: directory) else { return nil }
    let owners = FileOwners(caller: user, directory: status)
    func text(_ file: FilePath, _ status: Stat) -> String? {
      if status.userID == user || (owners.group != nil && status.groupID == owners.group) { return nil }
      return
        "\(file): belongs to user \(status.userID.rawValue): run as that user, or `chown -R \(user.rawValue) \(directory)`"
    }
    if let text = text(directory, status) { return text }
    guard let opened = try Directory(at: directory, files: Files()) else { return nil }
    var entries = try opened.entries()
    while let entry = try entries.next() {
      guard let status = try opened.status(of: entry.name) else { continue }
      if let text = text(directory.appending(entry.name), status) { return text }
    }
    return nil
  }
}
