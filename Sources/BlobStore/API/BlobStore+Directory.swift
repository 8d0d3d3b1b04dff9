package import SystemPackage

extension BlobStore {
  /// As `init(directory:configuration:)`, for a path in a string.
  public convenience init(directory: String, configuration: Configuration = Configuration()) throws(BlobStoreError) {
    try self.init(directory: FilePath(directory), configuration: configuration)
  }

  /// As `init(directory:configuration:)`, for a file URL.
  ///
  /// - Throws: `invalidConfiguration` also for a URL of another scheme than `file`.
  public convenience init(directory: URL, configuration: Configuration = Configuration()) throws(BlobStoreError) {
    try self.init(directory: try FilePath(directoryAt: directory), configuration: configuration)
  }
}

extension FilePath {
  /// - Throws: `invalidConfiguration` for a URL of another scheme than `file`.
  package init(directoryAt url: URL) throws(BlobStoreError) {
    guard url.isFileURL else {
      throw BlobStoreError(
        .invalidConfiguration, "\(url.absoluteString) is no file URL, and a cache is a directory of files",
        operation: "open")
    }
    self.init(url.path(percentEncoded: false))
  }
}
