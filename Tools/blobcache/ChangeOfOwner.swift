internal import BlobStore
internal import Posix
internal import SystemPackage

/// A directory, or a part of it, that belongs to another user than the one that is to use it, as after a change of a
/// container's user, or a restoration by the superuser.
enum ChangeOfOwner {
  /// Says whose the directory is, and how to mend it, after something in it could not be done for want of permission.
  ///
  /// - Parameter error: what could not be done; nil where it is known that permission may be wanting.
  static func report(_ directory: FilePath, after error: (any Error)? = nil) {
    if let error, !isLackOfPermission(error) { return }
    // What could not be done has been reported. What keeps this from being known changes nothing of it.
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

  /// - Returns: nil where the directory and all that lies in it itself belong to the user, or to a group that shares it.
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
