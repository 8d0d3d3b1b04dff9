internal import BlobStore
internal import Posix
internal import SystemPackage

/// Recognises a directory that belongs, in part or whole, to another user.
///
/// That is so after a change of a container's user, or a restoration by the superuser.
enum ChangeOfOwner {
  /// Names the directory's owner and the command that mends it, after a lack of permission.
  ///
  /// - Parameter error: the failure; nil where a lack of permission is known.
  static func report(_ directory: FilePath, after error: (any Error)? = nil) {
    if let error, !isLackOfPermission(error) { return }
    // The failure itself has been reported. An error here changes nothing about that.
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

  /// - Returns: nil if the directory and its entries belong to the user, or to a group that shares it.
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
