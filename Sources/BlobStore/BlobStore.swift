package import Posix
public import SystemPackage

/// A directory of blobs that stores small records in packs and each larger record in a separate file.
///
/// Every operation is synchronous and blocks its thread for the duration of its system calls. A store can be used from
/// any number of threads concurrently. Operations on one key take effect one after the other. A load returns a
/// complete blob, either the old or the new one, and never waits for a store.
///
/// Spec/Semantics.md defines each operation.
public final class BlobStore: Sendable {
  let core: StoreCore
  /// `nil` if stores start no collections.
  let limitEnforcer: LimitEnforcer?

  /// Creates a store for a directory.
  ///
  /// This initializer reads nothing from disk. The first operation that needs the directory opens it, and the first
  /// store creates it. A relative path is made absolute here, so that the store does not move when the working
  /// directory changes.
  ///
  /// - Throws: `invalidConfiguration` for an invalid configuration; `fileSystem` for a relative path if the working
  ///   directory no longer exists.
  /// - Complexity: O(1).
  public convenience init(directory: FilePath, configuration: Configuration = Configuration()) throws(BlobStoreError) {
    try self.init(directory: directory, configuration: configuration, files: Files())
  }

  /// - Parameter files: The file system calls, in which tests inject faults.
  package init(
    directory: FilePath, configuration: Configuration, files: Files, holder: (any RootHolder)? = nil
  ) throws(BlobStoreError) {
    try configuration.validate(for: directory)
    let absolutePath = try withErrorContext("open") { try files.absolute(directory) }
    let root = CacheRoot(
      path: directory, absolutePath: absolutePath, files: files, creates: configuration.access.createsDirectory,
      allowsWorldWritable: configuration.access.allowsWorldWritable, holder: holder,
      agreement: SettingsAgreement(configuration))
    core = StoreCore(root, configuration)
    limitEnforcer = configuration.limits.collectsOnStore ? LimitEnforcer(core) : nil
  }

  deinit { endCollection() }

  /// Stops a running collection after the file that it is processing, and prevents further collections.
  package func endCollection() { limitEnforcer?.close() }

  public var configuration: Configuration { core.configuration }

  /// The directory's path as passed to the initializer.
  public var directory: FilePath { core.root.path }

  package var temporaryNames: TemporaryNames { core.temporaryNames }
}

extension BlobStore.Configuration {
  fileprivate func validate(for directory: FilePath) throws(BlobStoreError) {
    func require(_ condition: Bool, _ message: String) throws(BlobStoreError) {
      guard condition else { throw BlobStoreError(.invalidConfiguration, message, path: directory, operation: "open") }
    }
    try require(!directory.isEmpty, "the directory's path is empty")
    try require(limits.size.map { $0 > 0 } ?? true, "a size limit of \(limits.size ?? 0) bytes is not above zero")
    try require(limits.count.map { $0 > 0 } ?? true, "a limit of \(limits.count ?? 0) records is not above zero")
    try require(
      limits.evictionTarget > 0 && limits.evictionTarget <= 1,
      "an eviction target of \(limits.evictionTarget) is not above zero and up to one")
    try require(
      (limits.freeSpaceFloor ?? 0) >= 0, "a free space floor of \(limits.freeSpaceFloor ?? 0) bytes is below zero")
    try require(
      packing?.bound.map { 1...BlobStore.Packing.largestBound ~= $0 } ?? true,
      "packing of records up to \(packing?.bound ?? 0) bytes is not between 1 and \(BlobStore.Packing.largestBound)")
    try require(limits.payload >= 0, "a maximum payload of \(limits.payload) bytes is below zero")
  }
}

extension BlobStore {
  /// Creates a store like `init(directory:configuration:)`, for a path in a string.
  public convenience init(directory: String, configuration: Configuration = Configuration()) throws(BlobStoreError) {
    try self.init(directory: FilePath(directory), configuration: configuration)
  }

  /// Creates a store like `init(directory:configuration:)`, for a file URL.
  ///
  /// - Throws: `invalidConfiguration`, also for a URL whose scheme is not `file`.
  public convenience init(directory: URL, configuration: Configuration = Configuration()) throws(BlobStoreError) {
    try self.init(directory: try FilePath(directoryAt: directory), configuration: configuration)
  }
}

extension FilePath {
  /// - Throws: `invalidConfiguration` for a URL whose scheme is not `file`.
  package init(directoryAt url: URL) throws(BlobStoreError) {
    guard url.isFileURL else {
      throw BlobStoreError(
        .invalidConfiguration, "\(url.absoluteString) is no file URL, and a cache is a directory of files",
        operation: "open")
    }
    self.init(url.path(percentEncoded: false))
  }
}
