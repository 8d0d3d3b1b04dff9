internal import Posix
public import SystemPackage

extension BlobStore.Configuration {
  /// The configuration of the program that last changed a directory, as far as the directory tells it.
  ///
  /// For tools that work on another program's directory. Layout, default time to live and size limit are the program's, if it
  /// left them there (`access.leavesHint`). Removed files are recycled only if the directory has a recycling bin. All else has its default.
  ///
  /// - Throws: `fileSystem` if the directory cannot be read.
  public init(following directory: FilePath) throws(BlobStoreError) {
    self.init()
    if let hint = try BlobStore.hint(at: directory) {
      layout = hint.layout
      limits.size = hint.sizeLimit
      expiry.defaultTimeToLive = .seconds(hint.defaultExpiration)
    }
    recycling = try BlobStore.hasRecyclingBin(at: directory) ? .automatic : .off
  }
}

extension BlobStore {
  fileprivate static func hasRecyclingBin(at directory: FilePath) throws(BlobStoreError) -> Bool {
    try reporting("open") {
      try Files().status(of: directory.appending(RecyclingBin.directoryName))?.type == .directory
    }
  }
}
