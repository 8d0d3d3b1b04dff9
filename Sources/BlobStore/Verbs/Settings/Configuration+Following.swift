internal import Posix
public import SystemPackage

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
}
