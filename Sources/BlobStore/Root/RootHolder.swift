package import Posix
package import SystemPackage

/// May refuse the directories in which a store works, and knows how long it works there. A cache in front of the store
/// holds its root, so that one directory has one cache.
package protocol RootHolder: Sendable {
  /// A directory was found at the store's path, and is about to be used.
  ///
  /// - Returns: what the store keeps as long as it uses the directory.
  /// - Throws: where it is not to be used.
  func hold(_ directory: FileIdentity, at path: FilePath) throws(BlobStoreError) -> any RootHold
}

package protocol RootHold: AnyObject, Sendable {}

extension BlobStoreError {
  /// The directory is in use by another cache of the process.
  package init(rootIsTaken message: String, path: FilePath) {
    self.init(.invalidConfiguration, message, path: path)
  }
}
