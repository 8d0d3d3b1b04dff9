internal import BlobRecord
internal import Logging
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

extension BlobStore.Configuration {
  /// The configuration that a directory asks for.
  ///
  /// For programs that work on another program's directory. The directory's settings come first
  /// (`BlobStore.settings(of:)`). Other values for layout, default time to live and size limit are those of the program
  /// that last changed the directory, if it left them there (`access.leavesHint`). Removed files are recycled only if
  /// the directory has a recycling bin. All else has its default.
  ///
  /// - Throws: `settingsUnreadable`; `fileSystem` if the directory cannot be read.
  public init(following directory: FilePath) throws(BlobStoreError) {
    self.init()
    if let hint = try BlobStore.hint(at: directory) {
      layout = Layout(hint.layout)
      limits.size = hint.sizeLimit
      expiry.defaultTimeToLive = .seconds(hint.defaultExpiration)
    }
    follow(try BlobStore.settings(of: directory))
    recycling = try BlobStore.hasRecyclingBin(at: directory) ? .automatic : .off
  }
}

extension BlobStore {
  fileprivate static func hasRecyclingBin(at directory: FilePath) throws(BlobStoreError) -> Bool {
    try withErrorContext("open") {
      try Files().status(of: directory.appending(RecyclingBin.directoryName))?.type == .directory
    }
  }

  /// The hint that lies in a directory.
  ///
  /// - Returns: nil if no program of this library has changed the directory yet, or the hint cannot be read.
  package static func hint(at directory: FilePath) throws(BlobStoreError) -> DirectoryHint? {
    try withErrorContext("open") {
      let files = Files()
      guard let directory = try Directory(at: directory, files: files) else { return nil }
      let open = try OpenRoot(directory, files.budget)
      do {
        return try open.controlFile(Logger(label: "BlobStore", factory: { _ in SwiftLogNoOpLogHandler() }))?.hint
      } catch {
        // A hint that may not be read is no hint; the caller has defaults.
        return nil
      }
    }
  }
}
