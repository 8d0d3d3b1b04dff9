package import SystemPackage

/// Which users a directory believes, and which write permissions are too wide.
///
/// Spec/Semantics.md, P11 to P14, has the rules.
///
/// The caller, the directory's owner and a believed group may own files. A class, group or others, is believed if it
/// may write to the directory and no sticky bit stops it. It can replace every file there anyway.
package struct FileOwners: Hashable, Sendable {
  package let caller: UserID
  package let directoryOwner: UserID
  /// The directory's group, if it is believed; else nil.
  ///
  /// Its members can do to each other's files what the owner can. In a sticky directory each user has power over own
  /// files only.
  package let group: GroupID?
  private let believesOthers: Bool
  /// Whether only believed users may enter the directory; then modes below it say nothing.
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

  /// Whether a class that is not believed may change a file, or empty a directory.
  package func expose(_ status: Stat) -> Bool {
    let permissions = status.permissions
    guard !isClosed, !permissions.isDisjoint(with: [.groupWrite, .otherWrite]) else { return false }
    // Only the owner of a file takes it out of a sticky directory.
    if status.type == .directory, permissions.contains(.saveText) { return false }
    return permissions.contains(.otherWrite) || status.groupID != group
  }

  /// Why a control file must not be mapped, or a directory not be used.
  ///
  /// The superuser is believed too, because it can change everything anyway. Where others are believed, so is every
  /// owner. So all processes come to one answer.
  ///
  /// - Returns: nil if it can be trusted.
  package func distrust(of status: Stat) -> Distrust? {
    guard believesOthers || include(ownerOf: status) || status.userID.rawValue == 0 else {
      return .owner(status.userID)
    }
    return expose(status) ? .writers : nil
  }
}

/// Why a file or directory is not trusted.
package enum Distrust: Equatable, Sendable, CustomStringConvertible {
  /// It belongs to another user.
  case owner(UserID)
  /// Users that may not change the cache may write to it.
  case writers

  package var description: String {
    switch self {
    case .owner(let user): "it belongs to user \(user.rawValue)"
    case .writers: "others may write to it"
    }
  }
}
