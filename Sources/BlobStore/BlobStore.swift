package import Posix
public import SystemPackage

/// A directory of blobs: small ones lie many to a file, each other one has a record file.
///
/// Every operation is synchronous: it blocks its thread for the length of its system calls. A store may be used from
/// any number of threads at once. For one key, operations take effect one after the other. A load sees a blob whole,
/// the old one or the new one, and never waits for a store.
///
/// What each operation means: Spec/Semantics.md.
public final class BlobStore: Sendable {
  let core: StoreCore
  /// nil if stores start no collections.
  let limitEnforcer: LimitEnforcer?

  /// Takes a directory as a store. The first operation that needs the directory opens it, and the first store makes it.
  /// `init` reads nothing.
  ///
  /// A relative path is made absolute here, so that a change of the working directory moves no store.
  ///
  /// - Throws: `invalidConfiguration`; `fileSystem` for a relative path where the working directory is gone.
  /// - Complexity: O(1).
  public convenience init(directory: FilePath, configuration: Configuration = Configuration()) throws(BlobStoreError) {
    try self.init(directory: directory, configuration: configuration, files: Files())
  }

  /// - Parameters:
  ///   - files: where tests put their faults.
  ///   - holder: is asked before a directory is used.
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

  /// Ends a collection that a store has started, with the file in hand, and lets no other begin.
  package func endCollection() { limitEnforcer?.close() }

  public var configuration: Configuration { core.configuration }

  /// The directory's path, as it was given.
  public var directory: FilePath { core.root.path }

  /// The temporary files that stores have in hand.
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
