internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import Configuration
internal import Posix
internal import SystemPackage

/// The work of `collect`, from the command line, the environment and the configuration file.
///
/// A setting from an earlier source overrides the later ones.
struct CollectionPlan: Equatable {
  struct Directory: Hashable {
    let path: FilePath
    let sizeLimit: ByteCount?
    let countLimit: Int64?
    let keepFree: ByteCount?
    let eviction: BlobStore.Eviction?
    let maximumTime: TimeSpan?
    let defaultTimeToLive: DefaultTimeToLive?
    let naming: RecordNaming?
    /// The arrangement, or `nil` to follow the directory, like `naming`.
    let isFlat: Bool?
    let allowsWorldWritable: Bool
    /// The interval between passes, or `nil` for a single pass.
    let interval: TimeSpan?
    let jitter: TimeSpan?
  }

  let directories: [Directory]
  /// The interval between passes, or `nil` for a single pass.
  let interval: TimeSpan?
  let firstDelay: TimeSpan
  /// The number of directories that are collected concurrently.
  ///
  /// With two, a directory on a medium that does not respond does not delay the others. The limit also protects a
  /// disk with several directories from many concurrent walks.
  let parallel: Int
  let metricsFile: FilePath?

  /// - Parameters:
  ///   - paths: The directories on the command line. If it is empty, all directories of the file are collected.
  ///   - commandLine: The settings on the command line.
  /// - Throws: `UsageError` if a setting in the environment is invalid or no directory is given.
  init(directories paths: [FilePath], commandLine: [CollectionSetting: String], file: ConfigurationFile?) throws {
    let general = CollectionSettings(commandLine: commandLine, file: [file?.settings ?? [:]])
    interval = try general.value(.interval)
    firstDelay = try general.value(.firstDelay) ?? TimeSpan(seconds: 0)
    parallel = try general.value(.parallel) ?? 2
    metricsFile = try general.value(.metricsFile)

    let chosen = paths.isEmpty ? file?.directories.values.map(\.path).sorted { $0.string < $1.string } ?? [] : paths
    guard !chosen.isEmpty else { throw UsageError("the configuration names no directories") }
    var seen: Set<FilePath> = []
    directories = try chosen.compactMap { path in
      let canonical = try Files().canonical(path)
      guard seen.insert(canonical).inserted else { return nil }
      let own = file?.directories[canonical]?.settings ?? [:]
      let settings = CollectionSettings(commandLine: commandLine, file: [own, file?.settings ?? [:]])
      return try Directory(path: path, settings)
    }
  }
}

extension CollectionPlan.Directory {
  fileprivate init(path: FilePath, _ settings: CollectionSettings) throws {
    self.path = path
    sizeLimit = try settings.value(.sizeLimit)
    countLimit = try settings.value(.countLimit)
    keepFree = try settings.value(.keepFree)
    eviction = try settings.value(.eviction)
    maximumTime = try settings.value(.maximumTime)
    defaultTimeToLive = try settings.value(.defaultTimeToLive)
    naming = try settings.value(.naming)
    isFlat = try settings.value(.isFlat)
    allowsWorldWritable = try settings.value(.allowsWorldWritable) ?? false
    interval = try settings.value(.interval)
    jitter = try settings.value(.jitter)
  }

  /// The plan's values of the settings that a directory can also store.
  var settings: BlobStore.DirectorySettings {
    var settings = BlobStore.DirectorySettings()
    settings.sizeLimit = sizeLimit.map { .atMost($0.bytes) }
    settings.countLimit = countLimit.map { .atMost($0) }
    settings.freeSpaceFloor = keepFree?.bytes
    settings.eviction = eviction
    settings.defaultTimeToLive = defaultTimeToLive?.duration
    settings.naming = naming
    settings.arrangement = isFlat.map { $0 ? .flat : .prefix }
    return settings
  }

  /// - Parameter options: Options that apply to every directory, such as the destination of warnings.
  func store(_ options: DirectoryOptions) throws(BlobStoreError) -> BlobStore {
    var options = options
    options.defaultTimeToLive = defaultTimeToLive
    options.naming = naming
    options.flat = isFlat
    options.allowsWorldWritable = allowsWorldWritable
    var configuration = try options.configuration(for: path)
    limit(&configuration)
    return try BlobStore(directory: path, configuration: configuration)
  }

  func limit(_ configuration: inout BlobStore.Configuration) {
    if let sizeLimit { configuration.limits.size = sizeLimit.bytes }
    if let countLimit { configuration.limits.count = countLimit }
    if let keepFree { configuration.limits.freeSpaceFloor = keepFree.bytes }
    if let eviction { configuration.limits.eviction = eviction }
  }

  /// Returns the timing for a service, whose first pass starts after a delay.
  func timing(firstDelay: TimeSpan) -> BlobStore.CollectionTiming {
    var timing = BlobStore.CollectionTiming(jitter: jitter?.duration, firstDelay: firstDelay.duration)
    if let interval { timing.interval = interval.duration }
    return timing
  }
}

/// The settings of one directory, or of all directories, from every source.
private struct CollectionSettings {
  private let reader: ConfigReader

  private static let environmentPrefix = "blobcache"

  /// - Parameter file: The settings in the file, with the more specific ones first.
  init(commandLine: [CollectionSetting: String], file: [[CollectionSetting: String]]) {
    let environment = EnvironmentVariablesProvider().prefixKeys(with: ConfigKey([Self.environmentPrefix]))
    reader = ConfigReader(
      providers: [Self.provider("command line", commandLine), environment] + file.map { Self.provider("file", $0) })
  }

  private static func provider(_ name: String, _ settings: [CollectionSetting: String]) -> any ConfigProvider {
    let values = settings.map { setting, text in
      (AbsoluteConfigKey([setting.rawValue]), ConfigValue(.string(text), isSecret: false))
    }
    return InMemoryProvider(name: name, values: Dictionary(uniqueKeysWithValues: values))
  }

  func value<Value: ExpressibleByArgument>(_ setting: CollectionSetting) throws(UsageError) -> Value? {
    guard let text = reader.string(forKey: ConfigKey([setting.rawValue])) else { return nil }
    guard setting.accepts(text), let value = Value(argument: text) else {
      // Only the environment can be the source, because command line and file were checked when they were read.
      throw UsageError("the environment: \(setting.variable)=\(text): must be \(setting.expectation)")
    }
    return value
  }
}

extension CollectionSetting {
  /// The name of the environment variable, such as `BLOBCACHE_SIZE_LIMIT`.
  var variable: String {
    var name = "BLOBCACHE_"
    var isAfterLowercase = false
    for character in rawValue {
      if character.isUppercase, isAfterLowercase { name += "_" }
      name += character.uppercased()
      isAfterLowercase = character.isLowercase
    }
    return name
  }
}
