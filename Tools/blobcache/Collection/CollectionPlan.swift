internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import Configuration
internal import Posix
internal import SystemPackage

/// The work of `collect`, from command line, environment and configuration file.
///
/// Earlier ones override later ones.
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
    /// nil where it goes by the hint, as `naming` does.
    let isFlat: Bool?
    let allowsWorldWritable: Bool
    /// nil where there is one pass.
    let interval: TimeSpan?
    let jitter: TimeSpan?
  }

  let directories: [Directory]
  /// nil for one pass.
  let interval: TimeSpan?
  let firstDelay: TimeSpan
  /// How many directories are collected at a time.
  ///
  /// With two, one directory on a medium that does not answer does not hold up the others. And a disk with several
  /// directories is not kept busy by many walks.
  let parallel: Int
  let metricsFile: FilePath?

  /// - Parameters:
  ///   - paths: the directories named on the command line; if there are none, all of the file's.
  ///   - commandLine: the settings made there.
  /// - Throws: `UsageError` for a wrong setting in the environment, and without any directory.
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

  /// The plan's values for settings that a directory can keep too.
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

  /// - Parameter options: what goes without saying in files, such as where warnings go.
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

  /// For a service, whose first passes are a while off.
  func timing(firstDelay: TimeSpan) -> BlobStore.CollectionTiming {
    var timing = BlobStore.CollectionTiming(jitter: jitter?.duration, firstDelay: firstDelay.duration)
    if let interval { timing.interval = interval.duration }
    return timing
  }
}

/// The settings for one directory, or for all, from every place.
private struct CollectionSettings {
  private let reader: ConfigReader

  private static let environmentPrefix = "blobcache"

  /// - Parameter file: what the file says, the more special first.
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
      // Command line and file were checked when they were read.
      throw UsageError("the environment: \(setting.variable)=\(text): must be \(setting.expectation)")
    }
    return value
  }
}

extension CollectionSetting {
  /// Such as `BLOBCACHE_SIZE_LIMIT`.
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
