internal import ArgumentParser
internal import BlobCache
internal import BlobStore
internal import Logging
internal import SystemPackage

/// The options of a run, which the coordinator passes to its workers.
struct RunOptions: ParsableArguments {
  @Option(help: "Worker processes.") var processes = 6
  @Option(help: "Threads of each worker.") var threads = 2
  @Option(help: "Keys that all of them use, at most 64.") var keys = 8
  @Option(help: "Operations of all workers together.") var operations = 1_000_000
  @Option(help: "Real seconds after which the workers end, done or not.") var seconds = 600
  @Option(help: "What the choices are made from; drawn if not given, and printed.") var seed: UInt64 = .random(
    in: 0 ... .max)
  @Option(help: "A directory to make, for the cache and the histories.") var directory: String
  @Option(help: "Real milliseconds in one of the store's seconds.") var secondMilliseconds = 10
  @Flag(help: "Kill workers at random, and start them again.") var kills = false
  @Option(help: "Real milliseconds from one kill to the next, about.") var killMilliseconds = 40
  @Flag(help: "Stop workers at random, for up to 50 milliseconds.") var stops = false
  @Flag(help: "Have one more worker that collects all the time.") var collector = false
  @Option(help: "Bytes that the collector leaves.") var sizeLimit: Int64?
  @Flag(help: "Have a cache with its memory tier in front of each store.") var memory = false
  @Flag(help: "Try each load, header and contains without waiting first.") var looks = false
  @Flag(help: "Have records of up to 2 KiB in packs: about half, so that they move between packs and files.")
  var packing = false
  @Option(help: "A fault that workers are to have.") var plant: Plant?

  func validate() throws {
    guard processes > 0, processes * threads <= 56 else {
      throw ValidationError("--processes times --threads must be 1 to 56, for the checker follows 64 operations a key")
    }
    guard threads > 0, keys > 0, keys <= 64, operations > 0, seconds > 0, secondMilliseconds > 0,
      killMilliseconds > 0
    else {
      throw ValidationError("numbers must be above zero, and --keys at most 64")
    }
  }
}

extension RunOptions {
  /// The arguments that give a worker the same options.
  var arguments: [String] {
    var arguments = [
      "--processes", "\(processes)", "--threads", "\(threads)", "--keys", "\(keys)", "--operations", "\(operations)",
      "--seconds", "\(seconds)", "--seed", "\(seed)", "--directory", directory, "--second-milliseconds",
      "\(secondMilliseconds)", "--kill-milliseconds", "\(killMilliseconds)",
    ]
    if kills { arguments.append("--kills") }
    if stops { arguments.append("--stops") }
    if collector { arguments.append("--collector") }
    if let sizeLimit { arguments += ["--size-limit", "\(sizeLimit)"] }
    if memory { arguments.append("--memory") }
    if looks { arguments.append("--looks") }
    if packing { arguments.append("--packing") }
    if let plant { arguments += ["--plant", plant.rawValue] }
    return arguments
  }

  /// The command that repeats this run.
  var command: String { "torture run " + arguments.joined(separator: " ") }

  var cachePath: FilePath { FilePath(directory).appending("cache") }

  func path(_ name: String) -> String { FilePath(directory).appending("history").appending(name).string }

  func historyPath(worker: Int, incarnation: Int, thread: Int) -> String {
    path("worker-\(worker)-\(incarnation)-\(thread)")
  }

  /// A Boolean value that indicates whether all payloads have one size, so that overwriting in place keeps the size.
  var hasFixedPayloads: Bool { plant == .inPlace }

  var hasCollector: Bool { collector || sizeLimit != nil || plant == .blindCollector }

  /// Opens the store of one process, or its cache with `--memory`.
  ///
  /// - Parameter collects: A Boolean value that indicates whether the process is the collector with the size limit.
  func cache(clock: TortureClock, collects: Bool) throws -> CacheInHand {
    let store = storeConfiguration(clock: clock, collects: collects)
    guard memory else { return CacheInHand(try BlobStore(directory: cachePath, configuration: store), looks: looks) }
    var configuration = BlobCache.Configuration()
    configuration.store = store
    configuration.excludesFromBackups = false
    return CacheInHand(try BlobCache(directory: cachePath, configuration: configuration), looks: looks)
  }

  /// Opens a store without limits.
  func store(clock: TortureClock) throws -> BlobStore {
    try BlobStore(directory: cachePath, configuration: storeConfiguration(clock: clock, collects: false))
  }

  private func storeConfiguration(clock: TortureClock, collects: Bool) -> BlobStore.Configuration {
    var configuration = BlobStore.Configuration()
    configuration.durability = .none
    configuration.expiry.defaultTimeToLive = .seconds(Self.defaultTTL)
    configuration.now = { clock.now }
    if packing {
      configuration.packing = .upTo(2048)
      // Chunks are reused hundreds of times a second. The index grows at fifteen records, when about half of the keys
      // are packed.
      configuration.packChunkByteCount = 2 << 10
      configuration.leastPackIndexEntryCount = 1
      configuration.leastCheckpointByteCount = 64 << 10
    } else {
      configuration.packing = .off
    }
    if collects {
      configuration.limits.size = sizeLimit
      configuration.limits.freeSpaceFloor = 0
      // The history contains only the collections of the collector, so stores must not start any.
      configuration.limits.collectsOnStore = false
    }
    // With changes in place, the payload's checksum would reveal the mix before the check does.
    if plant == .inPlace {
      configuration.format = .reference
      configuration.layout.arrangement = .spread
    }
    // A history contains only the fact that a collection failed on a file. The log contains the reason.
    configuration.logger = Logger(label: "torture") { StreamLogHandler.standardError(label: $0) }
    configuration.logger.logLevel = .warning
    return configuration
  }

  static let defaultTTL: UInt32 = 60
}
