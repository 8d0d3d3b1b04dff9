package import SystemPackage

/// Whose files are believed: the caller's, and those of the owner of the directory.
package struct FileOwners: Sendable {
  package let caller: UserID
  package let directoryOwner: UserID

  package init(caller: UserID, directoryOwner: UserID) {
    self.caller = caller
    self.directoryOwner = directoryOwner
  }

  package func include(ownerOf status: Stat) -> Bool {
    status.userID == caller || status.userID == directoryOwner
  }
}
