import FaultOperations
import SystemPackage
import TestSupport
import Testing

/// Tests the planted bugs of the power cut tests.
@Suite struct MissingSyncTests {
  /// Only the syncs are missing: a stored record is found, even in a new directory.
  @Test func whatIsStoredWithoutASyncIsFound() throws {
    let directory = try TemporaryDirectory(inMemory: true)
    let missing = MissingSync.ofFiles
    let worker = try Worker(directory.path.string + "/cache", missing.durability, plant: missing.plant)
    for key in ["first", "second", "first"] {
      let payload = PayloadName("of-\(key)", 700)
      #expect(worker.run(.store(key, payload))?.outcome == .done)
      #expect(worker.run(.load(key, touching: false))?.payload == PayloadDigest.of(payload.bytes))
    }
  }
}
