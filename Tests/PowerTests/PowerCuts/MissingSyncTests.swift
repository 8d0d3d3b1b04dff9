import FaultOperations
import SystemPackage
import TestSupport
import Testing

/// The harness itself.
@Suite struct MissingSyncTests {
  /// No sync is all that is missing: what was stored is found, also in a directory that is new.
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
