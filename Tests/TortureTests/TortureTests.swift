import Posix
import TestSupport
import Testing

/// The torture runs with a budget of time, for debug builds. At full size, each in some minutes:
///
///     swift run -c release torture run --processes 8 --operations 2000000 --seconds 1800 --kills --stops --collector \
///       --directory DIRECTORY
///     swift run -c release torture run --processes 8 --operations 2000000 --seconds 1800 --memory \
///       --directory DIRECTORY
///     swift run -c release torture run --processes 8 --operations 2000000 --seconds 1800 --kills --stops --collector \
///       --packing --keys 64 --directory DIRECTORY
///     swift run -c release torture run --processes 8 --operations 2000000 --seconds 1800 --looks --directory DIRECTORY
///     swift run -c release torture looks --drop-caches --directory DIRECTORY
///     swift run -c release torture locks --directory DIRECTORY
///     swift run -c release torture limit --processes 8 --operations 100000 --bytes 4000 --directory DIRECTORY
///     swift run -c release torture limit --processes 4 --operations 1000 --bytes 1000000 --directory DIRECTORY
///
/// In the last one, the limit leaves room for only four blobs. On a loaded machine, a store may then report that nothing
/// can be removed, because the blobs that other processes are storing are already counted.
///
/// More than 60 % of a run's operations are reads. Use more seeds for longer tests, because histories are in memory.
@Suite(.serialized) struct TortureTests {
  /// Returns arguments with the seed, so that a failing run can be repeated.
  func seeded(_ name: String) -> [String] { ["--seed", "\(SeededGenerator.announcedSeed(for: name))"] }

  /// About half of the keys are in packs at a time, so the index grows. A second is long, so that records do not
  /// expire on a slow machine before most keys are stored.
  private static let packing = ["--packing", "--keys", "64", "--second-milliseconds", "200"]

  @Test(.timeLimit(.minutes(30)), arguments: [false, true])
  func everyKeyIsLinearizableWhileProcessesAreKilledAndStopped(packs: Bool) throws {
    let output = try TortureTool.run(
      ["run", "--processes", "6", "--operations", "60000", "--seconds", "9", "--kills", "--stops", "--collector"]
        + (packs ? Self.packing : []) + seeded("everyKeyIsLinearizableWhileProcessesAreKilledAndStopped"))
    #expect(output.exitStatus == 0, "\(output.errors)")
    #expect(output.count("violations") == 0)
    #expect(output.count("operations") > 1000)
    #expect(output.count("kills") > 10)
    #expect(output.count("stops") > 10)
    #expect(output.count("expired") > 0)
    #expect(output.count("streams") > 0)
    #expect(output.count("followed") > 0)
    #expect(output.count("growths") > 0 || !packs)
    #expect(output.count("reusedChunks") > 0 || !packs)
  }

  @Test(.timeLimit(.minutes(30))) func memoryTiersThatLookAtTheGenerationAreLinearizableToo() throws {
    let output = try TortureTool.run(
      ["run", "--operations", "60000", "--seconds", "7", "--kills", "--stops", "--collector", "--memory"]
        + seeded("memoryTiersThatLookAtTheGenerationAreLinearizableToo"))
    #expect(output.exitStatus == 0, "\(output.errors)")
    #expect(output.count("violations") == 0)
    #expect(output.count("memoryHits") > 100)
  }

  @Test(.timeLimit(.minutes(30)), arguments: [false, true]) func looksThatNeverWaitAreLinearizableToo(
    hasMemory: Bool
  ) throws {
    let output = try TortureTool.run(
      ["run", "--operations", "60000", "--seconds", "7", "--kills", "--stops", "--collector", "--looks"]
        + (hasMemory ? ["--memory"] : []) + seeded("looksThatNeverWaitAreLinearizableToo, memory: \(hasMemory)"))
    #expect(output.exitStatus == 0, "\(output.errors)")
    #expect(output.count("violations") == 0)
    #expect(output.count("looks") > 100 || !SystemCall.hasCachedLookups)
  }

  /// A run at full size measures the durations.
  @Test(.timeLimit(.minutes(30))) func looksAreMeasuredBesideThreads() throws {
    let output = try TortureTool.run(["looks", "--rounds", "2", "--blobs", "5", "--crowd", "100"])
    #expect(output.exitStatus == 0, "\(output.errors)")
    for name in ["droppedFiles", "crowd", "crowdSeconds", "droppedFileMicroseconds"] {
      #expect(try #require(output.report[name] as? Double) > 0)
    }
  }

  @Test(.timeLimit(.minutes(30))) func evictionsTakeNothingThatIsLocked() throws {
    var evicted = 0
    // A collection waits for a stopped process, so the seed does not determine the number of collections.
    for attempt in 1...5 where evicted <= 10 {
      let output = try TortureTool.run(
        ["run", "--operations", "60000", "--seconds", "8", "--stops", "--size-limit", "4096"]
          + seeded("evictionsTakeNothingThatIsLocked, attempt \(attempt)"))
      #expect(output.exitStatus == 0, "\(output.errors)")
      #expect(output.count("violations") == 0)
      evicted += output.count("evicted")
    }
    #expect(evicted > 10)
  }

  @Test(.timeLimit(.minutes(30))) func readersAndWritersAtFullSpeedSeeOneOrder() throws {
    let output = try TortureTool.run(
      ["run", "--processes", "8", "--threads", "1", "--keys", "4", "--operations", "60000", "--seconds", "6"]
        + seeded("readersAndWritersAtFullSpeedSeeOneOrder"))
    #expect(output.exitStatus == 0, "\(output.errors)")
    #expect(output.count("violations") == 0)
  }

  /// Each of these is a possible bug of a store; a run that misses it would prove nothing.
  @Test(
    .timeLimit(.minutes(30)),
    arguments: [
      "unlocked-header", "in-place", "blind-memory", "stale-header", "stale-control-file", "blind-collector",
      "early-end",
    ])
  func aPlantedFaultIsFound(plant: String) throws {
    // The processes' timing, which the seed does not determine, decides how often a bug shows.
    var output = try TortureTool.run(plantedRun(plant, operations: 10_000))
    for factor in [2, 4, 8, 16] where output.exitStatus == 0 {
      output = try TortureTool.run(plantedRun(plant, operations: 10_000 * factor))
    }
    #expect(output.exitStatus == 1)
    #expect(output.count("violations") > 0)
    #expect(output.errors.contains("no order of the operations explains") || output.errors.contains("a mix"))
  }

  private func plantedRun(_ plant: String, operations: Int) -> [String] {
    ["run", "--operations", String(operations), "--seconds", "20", "--plant", plant]
      // The bug concerns expiry, so time has to pass quickly.
      + (plant == "blind-collector" ? ["--second-milliseconds", "1"] : [])
      + seeded("aPlantedFaultIsFound(\(plant))")
  }

  @Test(.timeLimit(.minutes(30))) func theLocksOfEightProcessesAreCountedExactlyAndNobodyIsBusy() throws {
    let output = try TortureTool.run(["locks", "--processes", "8", "--iterations", "1000"])
    #expect(output.exitStatus == 0, "\(output.errors)")
    #expect(output.count("failures") == 0)
    #expect(output.count("locks") == 8000)
    #expect(output.count("refCount") == output.count("locks") - output.count("unlocks"))
    #expect(output.count("refCount") == 80)
  }

  /// The directory is measured continuously while several processes store more than its limit.
  @Test(.timeLimit(.minutes(30))) func processesThatStoreAtOnceKeepTheLimit() throws {
    let output = try TortureTool.run(["limit", "--processes", "4", "--bytes", "20000", "--operations", "1000"])
    #expect(output.exitStatus == 0, "\(output.errors)")
    #expect(output.count("failures") == 0)
    #expect(output.count("largestBytes") <= output.count("bound"))
    #expect(output.count("looks") > 10)
    #expect(output.count("evicted") > 100)
  }
}
