import Foundation
import TestSupport
import Testing

/// Long use of a cache with failing calls leaks no resources. BLOBCACHE_TEST_LONG=1 runs 2,000,000 operations. This
/// command runs as many as time allows:
///
///     swift run -c release torture soak --operations 100000000 --directory DIRECTORY
@Suite(.serialized) struct SoakTests {
  static let operations = ProcessInfo.processInfo.environment["BLOBCACHE_TEST_LONG"] == "1" ? 2_000_000 : 100_000

  @Test(.timeLimit(.minutes(30))) func nothingGrows() throws {
    let seed = SeededGenerator.announcedSeed(for: "nothingGrows")
    let output = try TortureTool.run(["soak", "--operations", String(Self.operations), "--seed", String(seed)])
    #expect(output.exitStatus == 0, "\(output.errors)")
    #expect(output.report["leaks"] as? [String] == [])
    #expect(output.count("operations") == Self.operations)
    #expect(output.count("failedCalls") > 1000)
    #expect(output.count("wrongAnswers") == 0)
  }

  /// A planted leak that is not found in this number of operations would show that the test proves nothing.
  @Test(.timeLimit(.minutes(30)), arguments: ["descriptor", "thread", "memory", "file"])
  func aPlantedLeakIsFound(plant: String) throws {
    let output = try TortureTool.run(["soak", "--operations", "20000", "--seed", "1", "--plant", plant])
    let leaks = try #require(output.report["leaks"] as? [String])
    #expect(output.exitStatus == 1)
    #expect(leaks.contains { $0.hasPrefix(plant) }, "\(leaks)")
  }
}
