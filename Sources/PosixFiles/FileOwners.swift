package import SystemPackage

/// Whose files are believed: the caller's, those of the directory's owner, and those of its group where it shares it.
package struct FileOwners: Hashable, Sendable {
  package let caller: UserID
  package let directoryOwner: UserID
  /// The directory's group, where that may make and remove names in it: then its members can do to each other's files what
  /// the owner can. nil elsewhere; in a sticky directory each has power over the own files only.
  package let group: GroupID?

  package init(caller: UserID, directoryOwner: UserID, group: GroupID? = nil) {
    self.caller = caller
    self.directoryOwner = directoryOwner
    self.group = group
  }

  package init(caller: UserID, directory status: Stat) {
    let isShared = status.permissions.contains(.groupWrite) && !status.permissions.contains(.saveText)
    self.init(caller: caller, directoryOwner: status.userID, group: isShared ? status.groupID : nil)
  }

  package func include(ownerOf status: Stat) -> Bool {
    status.userID == caller || status.userID == directoryOwner || status.groupID == group
  }
}
