internal import Posix
internal import SystemPackage

/// The trusted owners of files in the directory and the owner of new ones, both derived from its owner.
struct FileOwnership: Sendable {
  /// The owners whose files are records: the caller, the owner of the root, or its group if that shares the root.
  let owners: FileOwners
  private let status: Stat
  private let callerGroup = Credentials.group
  private let mayGiveGroup: Bool

  init(of status: Stat) {
    self.status = status
    owners = FileOwners(caller: Credentials.user, directory: status)
    mayGiveGroup = owners.caller.rawValue == 0 || Credentials.belong(to: status.groupID)
  }

  func owns(_ status: Stat) -> Bool { owners.include(ownerOf: status) }

  /// Returns whether a file can become a record, because it is like a new file of this process and has one name.
  func isRecyclable(_ file: Stat) -> Bool {
    file.linkCount == 1 && file.deviceID == status.deviceID
      && file.permissions == permissions(of: .record, group: file.groupID)
      && file.userID == ownerOfNewFiles
      // If the group shares the cache, a record of another group would be foreign to it.
      && (file.groupID == status.groupID || (owners.group == nil && file.groupID == callerGroup))
  }

  /// The owner of files that this process creates and may overwrite, because only a file's owner can lease it.
  var ownerOfNewFiles: UserID { owners.caller.rawValue == 0 ? status.userID : owners.caller }

  /// Returns whether this process may have created a file or directory: it owns it, and it is on the root's volume.
  func isOwn(_ created: Stat) -> Bool {
    created.userID == owners.caller && created.deviceID == status.deviceID
  }

  /// Returns whether no process can recycle a file, due to another name, or permissions that differ from the root's.
  func isWorn(_ file: Stat) -> Bool {
    file.linkCount > 1 || file.permissions != permissions(of: .record, group: file.groupID)
  }

  /// Returns whether this is the same directory with the same owner and permissions, which its files inherit.
  func isSame(as status: Stat) -> Bool {
    status.deviceID == self.status.deviceID && status.inode == self.status.inode
      && status.permissions == self.status.permissions && status.userID == self.status.userID
      && status.groupID == self.status.groupID
  }

  func isSameDirectory(as other: FileOwnership) -> Bool {
    status.deviceID == other.status.deviceID && status.inode == other.status.inode
  }

  var isWorldWritable: Bool {
    status.permissions.contains(.otherWrite) && !status.permissions.contains(.saveText)
  }

  /// A Boolean value that indicates whether other users may create names in the root, but not remove each other's.
  var isSharedByStrangers: Bool {
    status.permissions.contains(.saveText) && !status.permissions.isDisjoint(with: [.groupWrite, .otherWrite])
  }

  /// A Boolean value that indicates whether users who may not change the directory can open and lock it.
  var isOpenToReaders: Bool {
    status.permissions.withoutReaders != status.permissions
  }

  /// Returns whether more users may write to this control file than to a new one. They may have it open, so changing
  /// its permissions would not be enough.
  func isOutgrown(control: Stat) -> Bool {
    // If any user may create names, a new file would be no better.
    guard !isSharedByStrangers else { return false }
    if case .owner = owners.distrust(of: control) { return false }
    let writers = control.permissions.intersection([.groupWrite, .otherWrite])
    return !permissions(of: .control, group: control.groupID).isSuperset(of: writers)
  }

  func distrust(ofSubdirectory status: Stat) -> Distrust? {
    status.permissions.contains(.saveText) ? nil : owners.distrust(of: status)
  }
}

// MARK: - New files

extension FileOwnership {
  enum FileRole {
    case record
    /// Contains the locks, which only users who may change the directory may take.
    case control
  }

  /// Returns the permissions of a new file: the root's, without write access for users who may not change the cache.
  func permissions(of role: FileRole, group: GroupID? = nil) -> FilePermissions {
    var permissions = status.permissions.intersection(FilePermissions(rawValue: 0o666))
    if status.permissions.contains(.saveText) {
      // A user who takes locks must be able to write to the control file, regardless of other permissions.
      if role == .record { permissions.subtract([.groupWrite, .otherWrite]) }
    } else if let group, group != status.groupID, !permissions.contains(.otherWrite) {
      permissions.remove(.groupWrite)
    }
    return role == .control ? permissions.withoutReaders : permissions
  }

  func subdirectoryPermissions(group: GroupID? = nil) -> FilePermissions {
    var permissions = status.permissions.intersection(FilePermissions(rawValue: 0o1777))
    if let group, group != status.groupID, permissions.isDisjoint(with: [.saveText, .otherWrite]) {
      permissions.remove(.groupWrite)
    }
    return permissions
  }

  /// Returns the owner and group that a new file or subdirectory must receive, or `nil` if it has them or this
  /// process may not assign them.
  func ownershipToGive(_ created: Stat) -> (user: UserID?, group: GroupID?)? {
    let isRoot = owners.caller.rawValue == 0
    let user = isRoot && created.userID != status.userID ? status.userID : nil
    let group = created.groupID != status.groupID && mayGiveGroup ? status.groupID : nil
    return user == nil && group == nil ? nil : (user, group)
  }

  /// Returns the owner, group, and permissions that a new subdirectory still needs.
  func wishes(
    forSubdirectory made: Stat
  ) -> (ownership: (user: UserID?, group: GroupID?)?, permissions: FilePermissions?) {
    let ownership = ownershipToGive(made)
    let permissions = subdirectoryPermissions(group: ownership?.group ?? made.groupID)
    let isAsWanted = made.permissions.intersection(FilePermissions(rawValue: 0o1777)) == permissions
    return (ownership, isAsWanted ? nil : permissions.union(made.permissions.intersection(.setGroupID)))
  }
}

extension FilePermissions {
  /// The permissions with read access only for classes with write access, because a reader can lock a file.
  var withoutReaders: FilePermissions {
    var permissions = self
    if !permissions.contains(.groupWrite) { permissions.remove(.groupRead) }
    if !permissions.contains(.otherWrite) { permissions.remove(.otherRead) }
    return permissions
  }
}
