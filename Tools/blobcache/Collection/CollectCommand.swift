internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage

struct CollectCommand: Subcommand {
  static let configuration = CommandConfiguration(
    commandName: "collect", abstract: "Remove what has expired and what was left over, and keep a size limit.",
    discussion: """
      One pass over each directory, or with --every passes until told to stop: SIGTERM and SIGINT end it after the step \
      in hand, with exit status 0; SIGHUP has the configuration read again. The exit status is 0 whatever a pass found; \
      2 if one could not be made.

      What is not said here is taken from the environment (BLOBCACHE_EVERY, BLOBCACHE_SIZE_LIMIT and so on), then from \
      the configuration file, then from what the directory's program has left in it.
      """)

  @Argument(help: ArgumentHelp("The caches' directories; else those in the configuration file.", valueName: "dir"))
  var directories: [FilePath] = []

  @Option(
    help: ArgumentHelp(
      "Over this many bytes, remove unlocked records too, the longest unused first.", valueName: "s"))
  var sizeLimit: ByteCount?

  @Option(help: ArgumentHelp("The same over this many records.", valueName: "n"))
  var countLimit: Int64?

  @Option(
    help: ArgumentHelp(
      "With a limit, leave this many bytes of the volume free; a tenth of it, 4GiB at most, if not given.",
      valueName: "s"))
  var keepFree: ByteCount?

  @Flag(help: "Report what would be removed, and remove nothing.")
  var dryRun = false

  @Flag(help: "Unlink what waits to be overwritten, and what the pass removes, rather than recycle it.")
  var emptyBin = false

  @Option(
    name: .customLong("max-time"),
    help: ArgumentHelp("Look for expired records no longer than this; later passes go on elsewhere.", valueName: "d"))
  var maximumTime: TimeSpan?

  @Flag(help: "Wait for another collection of the directory to end, rather than leave it to that one.")
  var wait = false

  @OptionGroup(title: "Options of a service") var schedule: ScheduleOptions

  @OptionGroup var options: DirectoryOptions

  func validate() throws {
    if directories.isEmpty, schedule.config == nil {
      throw ValidationError("Missing expected argument '<dir> ...', or --config with directories.")
    }
    if let sizeLimit, sizeLimit.bytes == 0 { throw ValidationError("A size limit is above zero.") }
    if let countLimit, countLimit <= 0 { throw ValidationError("A count limit is above zero.") }
    guard schedule.every != nil else { return }
    if schedule.once { throw ValidationError("--once is one pass, --every is many.") }
    if dryRun { throw ValidationError("A dry run is one pass.") }
    if emptyBin { throw ValidationError("A schedule empties the recycling bin of what is old.") }
    if wait { throw ValidationError("A schedule that meets another collection leaves it to that one.") }
    if options.now != nil { throw ValidationError("A service goes by the clock, not by --now.") }
  }

  /// Whether an option for one pass is on the command line.
  ///
  /// It overrides an interval from elsewhere.
  private var isForOnePass: Bool { schedule.once || dryRun || emptyBin || wait || options.now != nil }

  func answer(_ output: inout Output) throws -> Answer {
    let plan = try plan()
    guard plan.interval != nil, !isForOnePass else { return collectOnce(plan, &output) }
    try CollectionService(plan: plan, options: options) { try self.plan() }.run()
    return .done
  }

  /// What command line, environment and configuration file say now.
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

/// When `collect` makes its passes, and where it reports them.
struct ScheduleOptions: ParsableArguments {
  @Option(help: ArgumentHelp("Make passes until told to stop, this long apart, 1m at least.", valueName: "d"))
  var every: TimeSpan?

  @Flag(
    help: """
      Make one pass, though the environment or the configuration file says every; so do --dry-run, --empty-bin, --wait \
      and --now.
      """)
  var once = false

  @Option(
    help: ArgumentHelp(
      "Add up to this to each interval, by chance, so that services do not stay in step; a tenth of it if not given.",
      valueName: "d"))
  var jitter: TimeSpan?

  @Option(help: ArgumentHelp("Wait this long before the first pass.", valueName: "d"))
  var firstDelay: TimeSpan?

  @Option(help: ArgumentHelp("Collect at most so many directories at a time; 2 if not given.", valueName: "n"))
  var parallel: Int?

  @Option(help: ArgumentHelp("Read directories, and what holds for each, from this JSON file.", valueName: "file"))
  var config: FilePath?

  @Option(
    help: ArgumentHelp("After each pass, replace this file by counts in Prometheus' text format.", valueName: "file"))
  var metricsFile: FilePath?

  func validate() throws {
    if let parallel, !CollectionSetting.parallel.accepts("\(parallel)") {
      throw ValidationError("--parallel is \(CollectionSetting.parallel.expectation).")
    }
  }
}
