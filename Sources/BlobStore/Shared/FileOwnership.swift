internal import Posix
internal import SystemPackage

/// Whose files in a cache's directory are believed, and who owns a new file: both follow from the directory's owner.
struct FileOwnership: Sendable {
  /// A record file belongs to the caller, to the owner of the root, or to its group where that shares it; another's is
  /// foreign.
  let owners: FileOwners
  /// The root's.
  private let status: Stat
  private let callerGroup = Credentials.group
  /// Whether the caller may give the root's group its files.
  private let mayGiveGroup: Bool

  /// - Parameter status: of the root.
  init(of status: Stat) {
    self.status = status
    owners = FileOwners(caller: Credentials.user, directory: status)
    mayGiveGroup = owners.caller.rawValue == 0 || Credentials.belong(to: status.groupID)
  }

  func owns(_ status: Stat) -> Bool { owners.include(ownerOf: status) }

  /// Whether a file is as this process would make one for a record, and has one name only: then it may become one.
  func isRecyclable(_ file: Stat) -> Bool {
    file.linkCount == 1 && file.deviceID == status.deviceID
      && file.permissions == permissions(of: .record, group: file.groupID)
      && file.userID == ownerOfNewFiles
      // Where the group shares the cache, a record of another group would be foreign to it.
      && (file.groupID == status.groupID || (owners.group == nil && file.groupID == callerGroup))
  }

  /// Whose files this process makes, and whose it may overwrite: a lease is for a file's owner.
  var ownerOfNewFiles: UserID { owners.caller.rawValue == 0 ? status.userID : owners.caller }

  /// Whether a file or directory may be one that this process has made: its own, on the root's volume.
  func isOwn(_ created: Stat) -> Bool {
    created.userID == owners.caller && created.deviceID == status.deviceID
  }

  /// Whether no process may recycle a file: it has another name, or permissions that the root's no longer give.
  func isWorn(_ file: Stat) -> Bool {
    file.linkCount > 1 || file.permissions != permissions(of: .record, group: file.groupID)
  }

  /// Whether it is the same directory, and has the same owner and permissions, which its files get too.
  func isSame(as status: Stat) -> Bool {
    status.deviceID == self.status.deviceID && status.inode == self.status.inode
      && status.permissions == self.status.permissions && status.userID == self.status.userID
      && status.groupID == self.status.groupID
  }

  /// Whether it is the same directory.
  func isSameDirectory(as other: FileOwnership) -> Bool {
    status.deviceID == other.status.deviceID && status.inode == other.status.inode
  }

  var isWorldWritable: Bool {
    status.permissions.contains(.otherWrite) && !status.permissions.contains(.saveText)
  }

  /// Whether others may make names in it, and take none away: what lies there may be theirs.
  var isSharedByStrangers: Bool {
    status.permissions.contains(.saveText) && !status.permissions.isDisjoint(with: [.groupWrite, .otherWrite])
  }

  /// Whether users without the right to change the directory may open and lock it.
  var isOpenToReaders: Bool {
    status.permissions.withoutReaders != status.permissions
  }

  /// Whether users that could not write to a new control file can write to this one. They may have it open, so new
  /// permissions would not be enough.
  func isOutgrown(control: Stat) -> Bool {
    // Where any user may make names, a new one would be no better.
    guard !isSharedByStrangers else { return false }
    if case .owner = owners.distrust(of: control) { return false }
    let writers = control.permissions.intersection([.groupWrite, .otherWrite])
    return !permissions(of: .control, group: control.groupID).isSuperset(of: writers)
  }

  /// Why a subdirectory is not trusted; nil if it is.
  func distrust(ofSubdirectory status: Stat) -> Distrust? {
    status.permissions.contains(.saveText) ? nil : owners.distrust(of: status)
  }
}

// MARK: - New files

extension FileOwnership {
  /// What a file that the cache makes is for.
  enum FileRole {
    case record
    /// Holds the locks of those users alone that may change the directory.
    case control
  }

  /// The permissions of a new file: the root's, without write bits for users that may not change the cache.
  ///
  /// - Parameter group: the file's, if it is not the root's.
  func permissions(of role: FileRole, group: GroupID? = nil) -> FilePermissions {
    var permissions = status.permissions.intersection(FilePermissions(rawValue: 0o666))
    if status.permissions.contains(.saveText) {
      // A user that takes locks needs to write to the control file, whatever its other rights there.
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

  /// The owner and group that a new file or subdirectory must be given. nil where it has them, and where this process
  /// may not give them.
  func ownershipToGive(_ created: Stat) -> (user: UserID?, group: GroupID?)? {
    let isRoot = owners.caller.rawValue == 0
    let user = isRoot && created.userID != status.userID ? status.userID : nil
    let group = created.groupID != status.groupID && mayGiveGroup ? status.groupID : nil
    return user == nil && group == nil ? nil : (user, group)
  }

  /// Ownership and permissions that a new subdirectory must still be given; nil for those it has.
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
  /// Without the read bits of classes that have no write bit, because a user that opens a file can lock it.
  var withoutReaders: FilePermissions {
    var permissions = self
    if !permissions.contains(.groupWrite) { permissions.remove(.groupRead) }
    if !permissions.contains(.otherWrite) { permissions.remove(.otherRead) }
    return permissions
  }
}
