package import SystemPackage

/// Whose files in a directory are believed, and what must not be writable for whom.
///
/// The caller and the directory's owner are believed, and files of its group if that is. A class, group or others, is believed where it may write to the
/// directory and no sticky bit keeps it from replacing what lies there: it then needs no write bit on a file to change it.
package struct FileOwners: Hashable, Sendable {
  package let caller: UserID
  package let directoryOwner: UserID
  /// The directory's group, if it is believed: its members can do to each other's files what the owner can. nil elsewhere; in a
  /// sticky directory each has power over the own files only.
  package let group: GroupID?
  private let believesOthers: Bool
  /// Whether only those who are believed may enter the directory, so that modes of what lies in it say nothing.
  let isClosed: Bool

  package init(caller: UserID, directory: Stat) {
    self.init(
      caller: caller, directoryOwner: directory.userID, directoryGroup: directory.groupID,
      directoryPermissions: directory.permissions)
  }

  package init(
    caller: UserID, directoryOwner: UserID, directoryGroup: GroupID, directoryPermissions permissions: FilePermissions
  ) {
    self.caller = caller
    self.directoryOwner = directoryOwner
    let isSticky = permissions.contains(.saveText)
    group = permissions.contains(.groupWrite) && !isSticky ? directoryGroup : nil
    believesOthers = permissions.contains(.otherWrite) && !isSticky
    let admitsOthers = permissions.contains(.otherExecute)
    let admitsStrangersOfGroup = permissions.contains(.groupExecute) && group == nil
    isClosed = believesOthers || !(admitsOthers || admitsStrangersOfGroup)
  }

  package func include(ownerOf status: Stat) -> Bool {
    status.userID == caller || status.userID == directoryOwner || status.groupID == group
  }

  /// Whether a class that is not believed may write to a file, or take files out of a directory.
  package func expose(_ status: Stat) -> Bool {
    let permissions = status.permissions
    guard !isClosed, !permissions.isDisjoint(with: [.groupWrite, .otherWrite]) else { return false }
    // What a sticky directory holds, its owners alone take out.
    if status.type == .directory, permissions.contains(.saveText) { return false }
    return permissions.contains(.otherWrite) || status.groupID != group
  }

  /// Why what has this status is not to be gone by: a control file that is to be mapped, a directory of the cache's own.
  ///
  /// The superuser is believed too, as one who may change everything anyway. Where everybody is believed, so is every owner:
  /// all processes come to the same answer.
  ///
  /// - Returns: nil if it is to be trusted.
  package func distrust(of status: Stat) -> Distrust? {
    guard believesOthers || include(ownerOf: status) || status.userID.rawValue == 0 else {
      return .owner(status.userID)
    }
    return expose(status) ? .writers : nil
  }
}

/// Why a file or directory is not to be gone by.
package enum Distrust: Equatable, Sendable, CustomStringConvertible {
  /// It belongs to another user.
  case owner(UserID)
  /// Others may write to it than may change the cache.
  case writers

  package var description: String {
    switch self {
    case .owner(let user): "it belongs to user \(user.rawValue)"
    case .writers: "others may write to it"
    }
  }
}
