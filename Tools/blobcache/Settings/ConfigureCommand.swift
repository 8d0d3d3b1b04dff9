internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

struct ConfigureCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "configure", abstract: "Keep settings in a directory, or print what holds there.",
    discussion: """
      Settings lie in .blobcache.conf in the directory. Every subcommand goes by them, and so do programs that follow the \
      directory; a running program once it opens the directory anew. Options and the environment come before them, what \
      the directory's program has left comes after. --reset alone removes the file.
      """)

  static let examples = [
    Example(
      "Keep a directory below 2 GiB, and blobs for a week", "blobcache configure cache --size-limit 2G --default-ttl 1w"
    ),
    Example("See what holds, and why", "blobcache configure cache"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Bytes above which collections remove blobs, or none.", valueName: "s"),
    transform: SettingLimit<ByteCount>.read)
  var sizeLimit: SettingLimit<ByteCount>?

  @Option(
    parsing: .unconditional, help: ArgumentHelp("The same in records, or none.", valueName: "n"),
    transform: SettingLimit<RecordCount>.read)
  var countLimit: SettingLimit<RecordCount>?

  @Option(
    name: .customLong("default-ttl"), parsing: .unconditional,
    help: ArgumentHelp(
      "How long blobs without a time to live last after their last access, 1m at least, or never.", valueName: "d"),
    transform: TimeToLive.read)
  var defaultTimeToLive: TimeToLive?

  @Option(parsing: .unconditional, help: "How keys become file names.")
  var naming: RecordNaming?

  @Option(
    parsing: .unconditional,
    help:
      "Where records lie: in subdirectories by the beginnings of their names, in 1,024 by digests, in few or many by digests, or in the directory itself."
  )
  var layout: RecordArrangement?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Bytes of the volume that collections with a limit leave free.", valueName: "s"),
    transform: ByteCount.read)
  var keepFree: ByteCount?

  @Option(
    parsing: .unconditional,
    help: "Which blobs go first above a limit: the least used for long, or those stored or touched the longest ago.")
  var eviction: BlobStore.Eviction?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Keep records of so many bytes at most many to a file, or off.", valueName: "s"),
    transform: SettingPacking.read)
  var packing: SettingPacking?

  @Flag(help: "Begin with no settings, rather than those that are there.")
  var reset = false

  @Flag(
    name: .customLong("allow-world-writable"),
    help: "Change a directory that everybody may write to and that has no sticky bit.")
  var allowsWorldWritable = false

  @Flag(help: "Print one JSON object per line.")
  var json = false

  @Flag(help: "Print nothing after a change.")
  var quiet = false

  func answer(_ output: inout Output) throws -> Answer {
    let changesSomething = reset || !change(BlobStore.DirectorySettings()).isEmpty
    if changesSomething {
      try BlobStore.changeSettings(
        of: directory, resetting: reset, allowsWorldWritable: allowsWorldWritable
      ) { $0 = change($0) }
    }
    guard !changesSomething || json || !quiet else { return .done }
    for row in try EffectiveSettings(of: directory).rows {
      if json { output.line(JSONObject(row, of: directory)) } else { output.line(row.text) }
    }
    return .done
  }

  func validate() throws {
    guard defaultTimeToLive.map({ $0.seconds >= 60 }) ?? true else {
      throw ValidationError("--default-ttl must be a minute at least, or never.")
    }
    guard sizeLimit?.value.map({ $0.bytes > 0 }) ?? true else {
      throw ValidationError("--size-limit must be above zero, or none.")
    }
  }

  /// Applies the options.
  private func change(_ settings: BlobStore.DirectorySettings) -> BlobStore.DirectorySettings {
    var settings = settings
    if let sizeLimit { settings.sizeLimit = .init(sizeLimit.value?.bytes) }
    if let countLimit { settings.countLimit = .init(countLimit.value?.value) }
    if let defaultTimeToLive { settings.defaultTimeToLive = .seconds(defaultTimeToLive.seconds) }
    if let keepFree { settings.freeSpaceFloor = keepFree.bytes }
    if let eviction { settings.eviction = eviction }
    if let naming { settings.naming = naming }
    if let layout { settings.arrangement = layout }
    if let packing { settings.packing = packing.value }
    return settings
  }
}

extension EffectiveSettings.Row {
  /// A line such as `size-limit   2.1 GB   directory`.
  fileprivate var text: String {
    setting.rawValue.padded(to: 11) + "  " + shown.padded(to: 24) + "  " + source
  }

  private var shown: String {
    guard let value else { return "a tenth, 4GiB at most" }
    guard let number = Int64(value) else { return value }
    return switch setting {
    case .defaultTimeToLive: TimeSpan(seconds: number).description
    case .sizeLimit, .freeSpaceFloor, .packing: ByteCount(number).exact
    case .countLimit, .eviction, .naming, .layout: value
    }
  }
}

extension JSONObject {
  fileprivate init(_ row: EffectiveSettings.Row, of directory: FilePath) {
    self.init(type: "setting")
    add("directory", directory.string)
    add("name", row.setting.rawValue)
    if let number = row.value.flatMap({ Int64($0) }) { add("value", number) } else { add("value", row.value) }
    add("source", row.source)
  }
}
