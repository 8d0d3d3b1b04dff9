package import BlobRecord
internal import Logging
package import Posix
public import SystemPackage

extension BlobStore {
  /// Returns the settings of a directory, which are empty if it has no settings or does not exist.
  ///
  /// - Throws: `settingsUnreadable` if the file is damaged, edited by hand or another user's; `fileSystem`.
  /// - Complexity: O(1).
  public static func settings(of directory: FilePath) throws(BlobStoreError) -> DirectorySettings {
    try withErrorContext("settings") {
      let files = Files()
      guard let directory = try Directory(at: directory, files: files) else { return DirectorySettings() }
      return try OpenRoot(directory, files.budget).settings() ?? DirectorySettings()
    }
  }

  /// Changes the settings of a directory, which are on the medium when the call returns, or unchanged if it throws.
  ///
  /// A running program follows the new settings once it opens the directory again. Empty settings remove the file.
  ///
  /// - Parameters:
  ///   - directory: The path of an existing directory.
  ///   - resetting: A Boolean value that indicates whether the existing settings are discarded without being read.
  ///   - allowsWorldWritable: The value of `Configuration.Access.allowsWorldWritable`.
  ///   - change: A closure that receives the settings and changes them.
  /// - Returns: The new settings.
  /// - Throws: `directoryMissing`; `settingsUnreadable`; `collectionRunning` if a collection takes longer than half a
  ///   minute; `busy` if other changes take longer than ten seconds; `fileSystem`. `invalidConfiguration` for a limit
  ///   of zero or less, a time to live below a minute, a floor below zero, or a layout or naming that would hide
  ///   existing records.
  @discardableResult
  public static func changeSettings(
    of directory: FilePath, resetting: Bool = false, allowsWorldWritable: Bool = false,
    _ change: (inout DirectorySettings) -> Void
  ) throws(BlobStoreError) -> DirectorySettings {
    try changeSettings(
      of: directory, resetting: resetting, allowsWorldWritable: allowsWorldWritable, files: Files(), change)
  }

  /// Changes the settings with a timeout for other changes, and `files` for fault injection.
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
  /// Creates the configuration that a directory requests, for programs that work on another program's directory.
  ///
  /// The directory's settings take precedence (`BlobStore.settings(of:)`). Layout, default time to live and size
  /// limit are otherwise those of the program that last changed the directory, if it recorded them there
  /// (`access.recordsConfiguration`). Removed files are only recycled if the directory has a recycling bin. All other
  /// values are the defaults.
  ///
  /// - Throws: `settingsUnreadable`; `fileSystem` if the directory cannot be read.
  public init(following directory: FilePath) throws(BlobStoreError) {
    self.init()
    follow(try BlobStore.recordedConfiguration(of: directory))
    follow(try BlobStore.settings(of: directory))
    recycling = try BlobStore.hasRecyclingBin(at: directory) ? .automatic : .off
  }
}

extension BlobStore {
  fileprivate static func hasRecyclingBin(at directory: FilePath) throws(BlobStoreError) -> Bool {
    try withErrorContext("open") {
      guard let directory = try Directory(at: directory, files: Files()) else { return false }
      // A link in the place of the bin is foreign, whatever it leads to.
      return try directory.status(of: RecyclingBin.directoryName)?.type == .directory
    }
  }

  /// Returns the configuration that the last program to change a directory has recorded, with only the values that
  /// differ from the defaults. It is empty if there is none.
  package static func recordedConfiguration(of directory: FilePath) throws(BlobStoreError) -> DirectorySettings {
    try withErrorContext("open") {
      let files = Files()
      guard let directory = try Directory(at: directory, files: files) else { return DirectorySettings() }
      return try OpenRoot(directory, files.budget).recordedConfiguration()
    }
  }
}

extension BlobStore {
  /// Returns the arrangement of a directory's records, for a store that leaves it to the directory, or `nil` for a
  /// directory without records, for which the next store decides. The naming must be the directory's.
  package static func arrangementOfRecords(
    in directory: FilePath, naming: RecordNaming
  ) throws(BlobStoreError) -> RecordArrangement? {
    try withErrorContext("open") {
      let files = Files()
      guard let directory = try Directory(at: directory, files: files) else { return nil }
      let open = try OpenRoot(directory, files.budget)
      var configuration = Configuration()
      configuration.layout.naming = naming
      configuration.logger = Logger(label: "BlobStore", factory: { _ in SwiftLogNoOpLogHandler() })
      try open.findArrangement(configuration, settings: try open.settings(), isForStore: false)
      return open.mustSayArrangement && open.arrangement == .spread ? nil : open.arrangement
    }
  }
}
