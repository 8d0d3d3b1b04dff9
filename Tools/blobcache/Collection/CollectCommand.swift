internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage

struct CollectCommand: Subcommand {
  static let configuration = CommandConfiguration(
    commandName: "collect", abstract: "Remove what has expired and what was left over, and keep a size limit.",
    discussion: """
      One pass over each directory, or with --every passes until told to stop: SIGTERM and SIGINT end it after the step \
      in hand, with exit status 0; SIGHUP has the configuration read again. The exit status of one pass is 1 if a limit \
      stays exceeded or the directory is no cache, 2 if it could not be made or could not remove a file.

      What is not said here is taken from the environment (BLOBCACHE_EVERY, BLOBCACHE_SIZE_LIMIT and so on), then from \
      the configuration file, then from what the directory's program has left in it.
      """)

  static let examples = [
    Example("Remove what has expired, then the longest unused above 2 GiB", "blobcache collect cache --size-limit 2G"),
    Example("See what that would remove", "blobcache collect cache --size-limit 2G --dry-run"),
  ]

  @Argument(help: ArgumentHelp("The caches' directories; else those in the configuration file.", valueName: "dir"))
  var directories: [FilePath] = []

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "Over this many bytes, remove unlocked records too, the longest unused first.", valueName: "s"),
    transform: { try CollectionSetting.sizeLimit.read($0) })
  var sizeLimit: ByteCount?

  @Option(
    parsing: .unconditional, help: ArgumentHelp("The same over this many records.", valueName: "n"),
    transform: { try CollectionSetting.countLimit.read($0) })
  var countLimit: Int64?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "With a limit, leave this many bytes of the volume free; a tenth of it, 4GiB at most, if not given.",
      valueName: "s"), transform: ByteCount.read)
  var keepFree: ByteCount?

  @Flag(help: "Report what would be removed, and remove nothing.")
  var dryRun = false

  @Flag(help: "Unlink what waits to be overwritten, and what the pass removes, rather than recycle it.")
  var emptyBin = false

  @Option(
    name: .customLong("max-time"), parsing: .unconditional,
    help: ArgumentHelp("Look for expired records no longer than this; later passes go on elsewhere.", valueName: "d"),
    transform: TimeSpan.read)
  var maximumTime: TimeSpan?

  @Flag(help: "Wait for another collection of the directory to end, rather than leave it to that one.")
  var wait = false

  @Flag(help: "Before the pass, move small records into packs, as the directory's setting packing has it.")
  var pack = false

  @Flag(help: "Before the pass, give each packed record a file to itself.")
  var unpack = false

  @OptionGroup(title: "Options of a service") var schedule: ScheduleOptions

  @OptionGroup var options: DirectoryOptions

  func validate() throws {
    if directories.isEmpty, schedule.config == nil {
      throw ValidationError("Missing expected argument '<dir> ...', or --config with directories.")
    }
    if pack, unpack { throw ValidationError("--pack is one way, --unpack the other.") }
    if dryRun, pack || unpack { throw ValidationError("A dry run moves nothing.") }
    guard schedule.every != nil else { return }
    if pack || unpack { throw ValidationError("--pack and --unpack are for one pass.") }
    if schedule.once { throw ValidationError("--once is one pass, --every is many.") }
    if dryRun { throw ValidationError("A dry run is one pass.") }
    if emptyBin { throw ValidationError("A schedule empties the recycling bin of what is old.") }
    if wait { throw ValidationError("A schedule that meets another collection leaves it to that one.") }
    if options.now != nil { throw ValidationError("A service goes by the clock, not by --now.") }
  }

  /// A Boolean value that indicates whether the command line contains an option for one pass.
  ///
  /// Such an option overrides an interval of the environment or the file.
  private var isForOnePass: Bool { schedule.once || dryRun || emptyBin || wait || pack || unpack || options.now != nil }

  func answer(_ output: inout Output) throws -> Answer {
    EnvironmentNames.reportUnknown()
    let plan = try plan()
    guard plan.interval != nil, !isForOnePass else { return collectOnce(plan, &output) }
    try CollectionService(plan: plan, options: options) { try self.plan() }.run()
    return .done
  }

  /// Reads the plan from the command line, the environment and the configuration file.
  private func plan() throws -> CollectionPlan {
    try CollectionPlan(
      directories: directories, commandLine: commandLine, file: try schedule.config.map(ConfigurationFile.init))
  }

  private var commandLine: [CollectionSetting: String] {
    var settings: [CollectionSetting: String] = [:]
    settings[.sizeLimit] = sizeLimit.map { "\($0.bytes)" }
    settings[.countLimit] = countLimit.map { "\($0)" }
    settings[.keepFree] = keepFree.map { "\($0.bytes)" }
    settings[.maximumTime] = maximumTime?.description
    settings[.defaultTimeToLive] = options.defaultTimeToLive?.description
    settings[.naming] = options.naming?.rawValue
    settings[.isFlat] = options.flat.map { "\($0)" }
    settings[.allowsWorldWritable] = options.allowsWorldWritable ? "true" : nil
    settings[.interval] = schedule.every?.description
    settings[.jitter] = schedule.jitter?.description
    settings[.firstDelay] = schedule.firstDelay?.description
    settings[.parallel] = schedule.parallel.map { "\($0)" }
    settings[.metricsFile] = schedule.metricsFile?.string
    return settings
  }
}

/// The options for the times of `collect`'s passes and for their reports.
struct ScheduleOptions: ParsableArguments {
  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Make passes until told to stop, this long apart, 1m at least.", valueName: "d"),
    transform: TimeSpan.read)
  var every: TimeSpan?

  @Flag(
    help: """
      Make one pass, though the environment or the configuration file says every; so do --dry-run, --empty-bin, --wait, \
      --pack, --unpack and --now.
      """)
  var once = false

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "Add up to this to each interval, by chance, so that services do not stay in step; a tenth of it if not given.",
      valueName: "d"), transform: TimeSpan.read)
  var jitter: TimeSpan?

  @Option(
    parsing: .unconditional, help: ArgumentHelp("Wait this long before the first pass.", valueName: "d"),
    transform: TimeSpan.read)
  var firstDelay: TimeSpan?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Collect at most so many directories at a time; 2 if not given.", valueName: "n"),
    transform: { try CollectionSetting.parallel.read($0) })
  var parallel: Int?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("Read directories, and what holds for each, from this JSON file.", valueName: "file"))
  var config: FilePath?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp("After each pass, replace this file by counts in Prometheus' text format.", valueName: "file"))
  var metricsFile: FilePath?
}
