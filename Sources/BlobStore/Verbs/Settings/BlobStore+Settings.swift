internal import BlobRecord
package import Posix
public import SystemPackage

extension BlobStore {
  /// The settings of a directory; empty if it keeps none, or is absent.
  ///
  /// - Throws: `settingsUnreadable` for a file that is damaged, changed by hand or another user's; `fileSystem`.
  /// - Complexity: O(1).
  public static func settings(of directory: FilePath) throws(BlobStoreError) -> DirectorySettings {
    try withErrorContext("settings") {
      let files = Files()
      guard let directory = try Directory(at: directory, files: files) else { return DirectorySettings() }
      return try OpenRoot(directory, files.budget).settings() ?? DirectorySettings()
    }
  }

  /// Changes what a directory says of itself: on the medium when the call returns, or as it was.
  ///
  /// A running program goes by the new settings once it opens the directory anew. Settings that say nothing leave no file.
  ///
  /// - Parameters:
  ///   - directory: one that exists.
  ///   - resetting: whether to begin with no settings, rather than those that are there. Then nothing of them is read.
  ///   - allowsWorldWritable: as `Configuration.Access.allowsWorldWritable`.
  ///   - change: receives the settings, and changes what it wants.
  /// - Returns: the new settings.
  /// - Throws: `directoryMissing`; `settingsUnreadable`; `collectionRunning` if a collection goes on for longer than
  ///   half a minute; `busy` if other changes do for longer than ten seconds; `fileSystem`. `invalidConfiguration` for
  ///   a limit of zero or less, a time to live below a minute, or a floor below zero. It is also thrown for a layout or
  ///   naming by which records that lie there would not be found.
  @discardableResult
  public static func changeSettings(
    of directory: FilePath, resetting: Bool = false, allowsWorldWritable: Bool = false,
    _ change: (inout DirectorySettings) -> Void
  ) throws(BlobStoreError) -> DirectorySettings {
    try changeSettings(
      of: directory, resetting: resetting, allowsWorldWritable: allowsWorldWritable, files: Files(), change)
  }

  /// - Parameters:
  ///   - lockTimeout: how long to wait for other changes.
  ///   - files: where tests put their faults.
  @discardableResult
  package static func changeSettings(
    of directory: FilePath, resetting: Bool = false, allowsWorldWritable: Bool = false,
    lockTimeout: Duration = Configuration.Access().lockTimeout, files: Files,
    _ change: (inout DirectorySettings) -> Void
  ) throws(BlobStoreError) -> DirectorySettings {
    try withErrorContext("configure") {
      let root = CacheRoot(
        path: directory, absolutePath: try files.absolute(directory), files: files, creates: false,
        allowsWorldWritable: allowsWorldWritable, holder: nil, agreement: nil)
      var configuration = Configuration()
      configuration.access.lockTimeout = lockTimeout
      return try SettingsChange(StoreCore(root, configuration)).make(resetting: resetting, change)
    }
  }
}
