public import ArgumentParser
public import BlobRecord
internal import BlobStore
internal import Logging
internal import SystemPackage

/// The options of every subcommand for a directory.
struct DirectoryOptions: ParsableArguments {
  @Option(
    name: .customLong("default-ttl"), parsing: .unconditional,
    help: ArgumentHelp(
      """
      How long blobs without a time to live last after their last access, or never; else as the directory's program has \
      it, or 600s.
      """, valueName: "d"), transform: DefaultTimeToLive.read)
  var defaultTimeToLive: DefaultTimeToLive?

  @Flag(
    inversion: .prefixedNo,
    help: "The records lie in the directory itself, or in subdirectories; else as the directory's program has it.")
  var flat: Bool?

  @Option(
    parsing: .unconditional, help: "How keys become file names; else as the directory's program has it, or encoded.")
  var naming: RecordNaming?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Use this as the current time: Unix seconds or ISO 8601.", valueName: "t"),
    transform: UnixTime.read)
  var now: UnixTime?

  @Flag(
    name: .customLong("allow-world-writable"),
    help:
      "Use a directory that everybody may write to and that has no sticky bit: anyone can plant or remove blobs there."
  )
  var allowsWorldWritable = false

  @Flag(help: "Print one JSON object per line.")
  var json = false

  @Flag(help: "Print no confirmations, headings or warnings.")
  var quiet = false
}

extension RecordNaming: ExpressibleByArgument {}

extension RecordArrangement: ExpressibleByArgument {}

extension BlobStore.Eviction: ExpressibleByArgument {}

extension DirectoryOptions {
  /// Returns the configuration of a store with these options.
  ///
  /// Only storing a blob may create the directory: for other operations, a missing one is a mistake in its path.
  /// Missing options follow the directory's settings, then the recorded configuration of its program. The tool
  /// itself records none.
  func configuration(
    for directory: FilePath, creatingDirectory: Bool = false
  ) throws(BlobStoreError) -> BlobStore.Configuration {
    var configuration = try BlobStore.Configuration(following: directory)
    configuration.access.createsDirectory = creatingDirectory
    configuration.access.recordsConfiguration = false
    configuration.access.allowsWorldWritable = allowsWorldWritable
    configuration.access.lockTimeout = .seconds(30)
    // No limit, because large payloads are never held in memory as a whole.
    configuration.limits.payload = .max
    if let naming { configuration.layout.naming = naming }
    if let flat { configuration.layout.separatesDirectories = !flat }
    if let defaultTimeToLive { configuration.expiry.defaultTimeToLive = defaultTimeToLive.duration }
    if let now {
      configuration.now = { now }
      // Other processes rely on the time of the last collection.
      configuration.access.recordsCollections = false
    }
    configuration.logger = logger
    return configuration
  }

  var logger: Logger {
    let level: Logger.Level = quiet ? .error : .warning
    return Logger(label: "blobcache") { _ in StandardErrorLog(logLevel: level) }
  }

  func store(at directory: FilePath, creatingDirectory: Bool = false) throws -> BlobStore {
    try BlobStore(
      directory: directory, configuration: try configuration(for: directory, creatingDirectory: creatingDirectory))
  }

  /// Opens a store for subcommands that write files. If a signal ends the tool, unfinished files are removed.
  func storeToWrite(at directory: FilePath, creatingDirectory: Bool = false) throws -> BlobStore {
    let store = try store(at: directory, creatingDirectory: creatingDirectory)
    SignalEnd.remove(store.temporaryNames)
    return store
  }
}
