package import SystemPackage

/// The users that a directory trusts, and the write permissions that are too wide: Spec/Semantics.md, P11 to P14.
///
/// The caller, the directory's owner and a trusted group may own files. A permission class (group or others) is
/// trusted if it may write to the directory without a sticky bit, because it can replace every file there anyway.
package struct FileOwners: Hashable, Sendable {
  package let caller: UserID
  package let directoryOwner: UserID
  /// The directory's group, or `nil` if the group is not trusted.
  ///
  /// Members of a trusted group have the same power over each other's files as the owner. In a sticky directory, each
  /// user has power only over their own files.
  package let group: GroupID?
  private let believesOthers: Bool
  /// A Boolean value that indicates whether only trusted users may enter, so that modes below are irrelevant.
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

  /// Checks whether an untrusted class may change a file or the entries of a directory.
  package func expose(_ status: Stat) -> Bool {
    let permissions = status.permissions
    guard !isClosed, !permissions.isDisjoint(with: [.groupWrite, .otherWrite]) else { return false }
    // In a sticky directory, only the owner of a file may remove it.
    if status.type == .directory, permissions.contains(.saveText) { return false }
    return permissions.contains(.otherWrite) || status.groupID != group
  }

  /// Returns the reason not to map a control file or to use a directory, or `nil` if it is trusted.
  ///
  /// The superuser is trusted too, because it can change everything anyway. If others are trusted, every owner is
  /// trusted, so that all processes reach the same decision.
  package func distrust(of status: Stat) -> Distrust? {
    guard believesOthers || include(ownerOf: status) || status.userID.rawValue == 0 else {
      return .owner(status.userID)
    }
    return expose(status) ? .writers : nil
  }
}

package enum Distrust: Equatable, Sendable, CustomStringConvertible {
  case owner(UserID)
  /// Users without write access to the cache may write to the file.
  case writers

  package var description: String {
    switch self {
    case .owner(let user): "it belongs to user \(user.rawValue)"
    case .writers: "others may write to it"
    }
  }
}
