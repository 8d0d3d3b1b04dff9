internal import BlobRecord
internal import BlobStore
internal import FaultOperations
internal import SystemPackage

/// The command line, parsed without a library, because thousands of probes are started and libraries add cost.
struct ProbeArguments {
  var settings: StoreSettings
  var resultFile: String?
  var plant: PlantedBug?
  /// The counter of steps, which may kill the process before one of them.
  var lifespan: Lifespan?
  var isInspection = false
  /// A Boolean value that indicates whether operations are read from standard input.
  var isService = false
  var operation: FaultOperation?

  static let usage = """
    usage: faultprobe DIR [--now SECONDS] [--durability automatic|none|barrier|full] [--timeout MILLISECONDS]
                      [--recycles true|false] [--warms-up true|false] [--packs true|false] [--checkpoints true|false] [--kill-at STEP]
                      [--result FILE] [--plant NAME] OPERATION [WORD...]
    --kill-at: the number of the call, or the step in shared memory, before which it is killed; 0 to list them
    operations: inspect | store KEY TAG BYTES [one|keep|keepOrOne] | load KEY [touching] | touch KEY | lock KEY |
      unlock KEY [force] | remove KEY | removeAll all|locked|unlocked | collect [evicting] | verify | quarantine KEY |
      serve: operations from standard input, one a line, and a line with the result of each

    """

  /// - Returns: The arguments, or `nil` if they are invalid.
  init?(_ arguments: [String]) {
    var rest = arguments[...]
    guard let directory = rest.popFirst() else { return nil }
    settings = StoreSettings(directory: FilePath(directory))
    while let word = rest.first, word.hasPrefix("--") {
      rest.removeFirst()
      guard let value = rest.popFirst() else { return nil }
      switch word {
      case "--now":
        guard let seconds = Int64(value) else { return nil }
        settings.now = UnixTime(seconds: seconds)
      case "--durability":
        guard let durability = BlobStore.Durability(rawValue: value) else { return nil }
        settings.durability = durability
      case "--timeout":
        guard let milliseconds = Int64(value) else { return nil }
        settings.lockTimeout = .milliseconds(milliseconds)
      case "--recycles":
        guard let recycles = Bool(value) else { return nil }
        settings.recycles = recycles
      case "--warms-up":
        guard let warmsUp = Bool(value) else { return nil }
        settings.warmsUp = warmsUp
      case "--packs":
        guard let packs = Bool(value) else { return nil }
        settings.packs = packs
      case "--checkpoints":
        guard let checkpoints = Bool(value) else { return nil }
        settings.checkpoints = checkpoints
      case "--kill-at":
        guard let step = Int(value) else { return nil }
        lifespan = Lifespan(endsBefore: step > 0 ? step : nil)
      case "--result": resultFile = value
      case "--plant":
        guard let named = PlantedBug(rawValue: value) else { return nil }
        plant = named
      default: return nil
      }
    }
    if let lifespan { settings.files = lifespan.files }
    if rest.elementsEqual(["inspect"]) {
      isInspection = true
    } else if rest.elementsEqual(["serve"]) {
      isService = true
    } else {
      operation = FaultOperation(arguments: Array(rest))
      if operation == nil { return nil }
    }
  }
}
