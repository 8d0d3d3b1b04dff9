import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, G.
@Suite struct DamagePolicyTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// G1, G2, G3.
  @Test(arguments: Damage.allCases, BlobStore.DamagePolicy.allCases)
  func policyIsFollowedByLoads(damage: Damage, policy: BlobStore.DamagePolicy) throws {
    let store = try cache.store { $0.damagePolicy = policy }
    try store.store(payload(5), for: "key", locks: .one)
    try damage.inflict(on: "ke/key", in: cache)
    let bytes = try cache.bytes("ke/key")
    let error = expect(.damaged) { _ = try store.load("key") }
    #expect(error?.recordError?.name == damage.rawValue)
    let isActedOn = policy != .report && !damage.mayBeMeant && damage != .keyMismatch
    guard isActedOn else {
      #expect(try cache.files() == ["ke/key"])
      #expect(try cache.bytes("ke/key") == bytes)
      return
    }
    #expect(try store.load("key") == nil)
    #expect(try cache.files() == (policy == .remove ? [] : [".quarantine/key"]))
    if policy == .quarantine {
      #expect(try cache.bytes(".quarantine/key") == bytes)
      #expect(try store.usage().quarantinedFiles == 1)
      #expect(try store.usage().bytes == Int64(bytes.count))
    }
  }

  /// G5.
  @Test(arguments: [Damage.invalidHeaderCRC, .wrongPayloadSize]) func onlyLoadsAct(damage: Damage) throws {
    let store = try cache.store { $0.damagePolicy = .remove }
    try store.store(payload(5), for: "key")
    try damage.inflict(on: "ke/key", in: cache)
    let before = try cache.snapshot()
    expect(.damaged) { _ = try store.header(for: "key") }
    expect(.damaged) { _ = try store.contains("key") }
    expect(.damaged) { _ = try store.touch("key") }
    expect(.damaged) { _ = try store.lock("key") }
    #expect(try store.load(prefix: "key") { $0.first } == nil)
    #expect(try cache.snapshot() == before)
  }

  /// G2: a record that was replaced by a sound one is not removed.
  @Test func recordStoredAnewIsNotRemovedForTheOldOnesDamage() throws {
    let trace = CallTrace()
    let cache = cache
    let store = try cache.store(files: trace.files) { $0.damagePolicy = .remove }
    let other = try cache.store()
    try store.store(payload(5), for: "key")
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    _ = trace.take()
    trace.onCall { call, path in
      // The last read of the load locks and unlocks the stripe, and the removal locks it again.
      guard call == .takeStripe, trace.count(.takeStripe) == 2 else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try other.store(payload(6), for: "key") }
      return nil
    }
    expect(.damaged) { _ = try store.load("key") }
    #expect(trace.count(.freeStripe) == 2)
    #expect(try store.load("key")?.payload == payload(6))
  }

  /// L5: a record that appears damaged during a change is read again.
  @Test(arguments: [1, 2]) func damageSeenInPassingIsNone(readings: Int) throws {
    let trace = CallTrace()
    let cache = cache
    let store = try cache.store(files: trace.files) { $0.damagePolicy = .remove }
    try store.store(payload(5), for: "key")
    let sound = try cache.bytes("ke/key")
    try Damage.invalidHeaderCRC.inflict(on: "ke/key", in: cache)
    _ = trace.take()
    trace.onCall { call, _ in
      guard call == .openBeneath, trace.count(.openBeneath) == readings + 1 else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try cache.write(sound, to: "ke/key") }
      return nil
    }
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// G2: a file that cannot be moved is left, logged, and still reported as damaged.
  @Test func failureOfThePolicyIsLogged() throws {
    let trace = CallTrace()
    let log = RecordedLog()
    let store = try cache.store(files: trace.files) {
      $0.damagePolicy = .remove
      $0.logger = log.logger
    }
    try store.store(payload(5), for: "key")
    try Damage.invalidHeaderCRC.inflict(on: "ke/key", in: cache)
    trace.onCall { call, _ in call == .unlink ? .fail(.readOnlyFileSystem) : nil }
    expect(.damaged) { _ = try store.load("key") }
    #expect(log.warnings.count == 1)
    #expect(try cache.files() == ["ke/key"])
  }

  /// G4: 1 % of 50,000 bytes corresponds to five files of 100 bytes.
  @Test func quarantineHoldsAHundredthOfTheLimitOldestOut() throws {
    let store = try cache.store {
      $0.limits.size = 50_000
      $0.damagePolicy = .quarantine
    }
    for index in 0..<8 {
      let key = "\(index)"
      try store.store(payload(36), for: BlobKey(key))
      try Damage.payloadChecksumMismatch.inflict(on: key, in: cache)
      // The sixth file is the oldest by its modification time and is removed immediately.
      try cache.setModified(key, index == 5 ? 1 : 1_000_000 + Int64(index))
      expect(.damaged) { _ = try store.load(BlobKey(key)) }
      #expect(try store.usage().quarantinedFiles == min(Int64(index) + 1, 5))
    }
    #expect(try cache.files() == Set([2, 3, 4, 6, 7].map { ".quarantine/\($0)" }))
    #expect(try store.usage().quarantinedBytes == 500)
  }

  /// G4: a file larger than the quarantine's limit is removed from it.
  @Test func quarantineTakesNothingAboveItsLimit() throws {
    let store = try cache.store {
      $0.limits.size = 5000
      $0.damagePolicy = .quarantine
    }
    try store.store(payload(36), for: "key")
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    expect(.damaged) { _ = try store.load("key") }
    #expect(try cache.files() == [])
  }

  /// G4: the number of files is limited, too, even if they have no payload.
  @Test func quarantineHoldsSoManyFiles() throws {
    let store = try cache.store { $0.damagePolicy = .quarantine }
    try cache.makeDirectory(".quarantine")
    for index in 0..<4096 { try check(close(creat(cache.path(".quarantine/\(index)"), 0o600)), "creat") }
    try store.store(payload(5), for: "key")
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    expect(.damaged) { _ = try store.load("key") }
    #expect(try store.usage().quarantinedFiles == 4096)
  }

  /// G2: a damaged record replaces an earlier one of the same key.
  @Test func quarantineKeepsTheLatestOfAKey() throws {
    let store = try cache.store { $0.damagePolicy = .quarantine }
    for byteCount in [5, 6] {
      try store.store(payload(byteCount), for: "key")
      try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
      expect(.damaged) { _ = try store.load("key") }
    }
    #expect(try cache.files() == [".quarantine/key"])
    #expect(try cache.bytes(".quarantine/key").count == 70)
  }
}

/// Spec/Semantics.md, L5, U5, C2: every single-bit flip of a record, byte by byte.
@Suite struct BitFlipTests {
  static let payloadByteCount = 24

  @Test(arguments: 0..<(64 + payloadByteCount)) func noFlippedBitIsTakenForGood(byte: Int) throws {
    let cache = try Cache()
    let store = try cache.store()
    try store.store(payload(Self.payloadByteCount), for: "key", locks: .one)
    let sound = try cache.bytes("ke/key")
    for bit in 0..<8 {
      var bytes = sound
      bytes[byte] ^= 1 << bit
      try cache.write(bytes, to: "ke/key")
      let expected =
        switch byte {
        case 0..<4: "magicMismatch"
        case 4..<64: "invalidHeaderCRC"
        default: "payloadChecksumMismatch"
        }
      #expect(expect(.damaged) { _ = try store.load("key") }?.recordError?.name == expected)
      let report = try store.verify()
      #expect(report.damagedFiles == 1 && report.soundRecords == 0)
      if byte < 64 {
        expect(.damaged) { _ = try store.contains("key") }
        expect(.damaged) { try store.lock("key") }
        expect(.damaged) { try store.unlock("key") }
        #expect(try store.usage().damagedFiles == 1)
      }
      #expect(try cache.bytes("ke/key") == bytes)
      try cache.setModified("ke/key", 0)
      #expect(try store.collect().damaged == ((4..<64).contains(byte) ? 1 : 0))
    }
  }

  /// A reader may see a partially changed record.
  @Test func damageThatIsNotFoundAgainIsNone() throws {
    let trace = CallTrace()
    let cache = try Cache()
    try cache.store().store(payload(5), for: "key", locks: .one)
    let sound = try cache.bytes("ke/key")
    try Damage.invalidHeaderCRC.inflict(on: "ke/key", in: cache)
    trace.onCall { call, path in
      guard call == .close, path.string.hasSuffix("/key") else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try cache.write(sound, to: "ke/key") }
      return nil
    }
    var states: [RecordState] = []
    let report = try cache.store(files: trace.files).verify { finding in
      if case .record(let entry) = finding { states.append(entry.state) }
    }
    #expect(states == [.locked])
    #expect(report.soundRecords == 1 && report.damagedFiles == 0)
  }

  /// Every truncation of a record file, and several extensions of it, are detected.
  @Test func noTruncatedRecordIsTakenForGood() throws {
    let cache = try Cache()
    let store = try cache.store()
    try store.store(payload(Self.payloadByteCount), for: "key")
    let sound = try cache.bytes("ke/key")
    for byteCount in 0..<sound.count {
      try cache.write(Array(sound.prefix(byteCount)), to: "ke/key")
      expect(.damaged) { _ = try store.load("key") }
      #expect(try store.usage().damagedFiles == 1)
    }
    try cache.write(sound + [0], to: "ke/key")
    expect(.damaged) { _ = try store.load("key") }
  }

  /// A record under the file name of another key is detected.
  @Test func exchangedRecordsAreNotTakenForGood() throws {
    let cache = try Cache()
    let store = try cache.store()
    try store.store(payload(5), for: "key1")
    try store.store(payload(6), for: "key2")
    let first = try cache.bytes("ke/key1")
    try cache.write(try cache.bytes("ke/key2"), to: "ke/key1")
    try cache.write(first, to: "ke/key2")
    for key in ["key1", "key2"] as [BlobKey] {
      #expect(expect(.damaged) { _ = try store.load(key) }?.recordError?.code == 109)
    }
  }
}
