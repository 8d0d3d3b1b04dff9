import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, S.
@Suite struct StoreTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// S1, L1.
  @Test(arguments: [0, 1, 63, 64, 65, 4096, 1 << 20, (1 << 20) + 1]) func loadsWhatWasStored(byteCount: Int) throws {
    let store = try cache.store()
    #expect(try store.load("key") == nil)
    try store.store(payload(byteCount), for: "key")
    let blob = try store.load("key")
    #expect(blob?.payload == payload(byteCount))
    #expect(blob?.key == "key")
    #expect(blob?.header.payloadSize == UInt64(byteCount))
    #expect(try cache.state("ke/key")?.size == Int64(64 + byteCount))
  }

  /// S1.
  @Test func replacesPayloadTimeToLiveAndUpdateTime() throws {
    let store = try cache.store()
    try store.store(payload(100), for: "key", ttl: .seconds(90))
    cache.clock.advance(by: 50)
    try store.store(payload(7, 2), for: "key", ttl: .seconds(20))
    let blob = try store.load("key")
    #expect(blob?.payload == payload(7, 2))
    #expect(blob?.header.ttl == 20)
    #expect(blob?.header.updateTime == UInt64(cache.now))
    try store.store(payload(7, 2), for: "key")
    #expect(try store.header(for: "key")?.ttl == 0)
    #expect(try cache.files() == ["ke/key"])
  }

  /// S2, S3: the old count, the policy and the new count.
  @Test(
    arguments: [
      (0, .none, 0), (0, .one, 1), (5, .none, 0), (5, .one, 1),
      (0, .keep, 0), (0, .keepOrOne, 1), (1, .keepOrOne, 1), (5, .keep, 5), (5, .keepOrOne, 5),
    ] as [(UInt32, BlobStore.LockPolicy, UInt32)])
  func lockCountIsSetOrKeptNeverAdded(old: UInt32, locks: BlobStore.LockPolicy, new: UInt32) throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    for _ in 0..<old { try store.lock("key") }
    // A lock is effective regardless of the age.
    cache.clock.advance(by: 1000)
    try store.store(payload(11), for: "key", locks: locks)
    #expect(try store.load("key")?.header.refCount == new)
    #expect(try store.load("key")?.payload == payload(11))
  }

  /// S3.
  @Test(arguments: Damage.allCases.filter(\.showsInHeader)) func locksOfADamagedRecordAreNotKept(damage: Damage) throws
  {
    let store = try cache.store()
    try store.store(payload(10), for: "key", locks: .one)
    try damage.inflict(on: "ke/key", in: cache)
    try store.store(payload(11), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == 0)
  }

  /// S4: an unlock after the old count was read, during the sync of the new record, and before its publication.
  @Test(arguments: [1, 3] as [UInt32]) func unlockDuringTheSyncIsNotUndone(left: UInt32) throws {
    let trace = CallTrace()
    let cache = cache
    let store = try cache.store(files: trace.files) { $0.durability = .automatic }
    let other = try cache.store()
    try other.store(payload(10), for: "key", locks: .one)
    for _ in 0..<left { try other.lock("key") }
    trace.onCall { call, _ in
      guard call == .sync else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try other.unlock("key") }
      return nil
    }
    try store.store(payload(11), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == left)
    #expect(try store.load("key")?.payload == payload(11))
  }

  /// S4.
  @Test func removalDuringTheSyncLeavesNoLocksToKeep() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.durability = .automatic }
    let other = try cache.store()
    try other.store(payload(10), for: "key", locks: .one)
    trace.onCall { call, _ in
      guard call == .sync else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try other.remove("key") }
      return nil
    }
    try store.store(payload(11), for: "key", locks: .keep)
    #expect(try store.header(for: "key")?.refCount == 0)
  }

  /// S5: each call fails, permanently or once; the old record stays unchanged, and no file remains.
  @Test(arguments: [BlobStore.Durability.none, .full]) func storeThatThrowsLeavesTheOldRecord(
    durability: BlobStore.Durability
  ) throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.durability = durability }
    try store.store(payload(10), for: "key", locks: .one)
    var failures = 0
    for call in SystemCall.allCases where call != .close {
      // A sync that fails after the rename is reported although the new record is in place.
      trace.onCall { made, path in made == call && !path.string.hasSuffix("/ke") ? .fail(.noSpace) : nil }
      defer { trace.onCall(nil) }
      let before = try cache.snapshot()
      do {
        try store.store(payload(11), for: "key")
      } catch {
        failures += 1
        #expect(error.code == .fileSystem)
        #expect(error.errno == .noSpace)
        #expect(error.key == "key")
        #expect(error.path != nil)
        #expect(error.systemCall != nil)
        trace.onCall(nil)
        if call == .unlink { continue }
        #expect(try cache.snapshot() == before, "\(call)")
        #expect(try store.load("key")?.payload == payload(10), "\(call)")
      }
      trace.onCall(nil)
      try store.store(payload(10), for: "key", locks: .one)
    }
    // `open`, `openBeneath` (the old record), `status`, `lock`, `write`, `rename`, `renameNoReplace` and `sync`.
    #expect(failures >= (durability == .full ? 8 : 7))
  }

  /// S6.
  @Test func payloadAboveTheMaximumIsRefused() throws {
    let store = try cache.store { $0.limits.payload = 100 }
    try store.store(payload(100), for: "key")
    expect(.payloadTooLarge) { try store.store(payload(101), for: "key") }
    #expect(try store.load("key")?.payload == payload(100))
    #expect(try cache.files() == ["ke/key"])
  }

  /// S6.
  @Test func recordAboveTheSizeLimitIsRefused() throws {
    let store = try cache.store { $0.limits.size = 164 }
    try store.store(payload(100), for: "key")
    expect(.payloadTooLarge) { try store.store(payload(101), for: "key") }
    #expect(try store.load("key")?.payload == payload(100))
    let tiny = try cache.store { $0.limits.size = 63 }
    expect(.payloadTooLarge) { try tiny.store(Data(), for: "key") }
  }

  /// S7: piece boundaries are at 256 KiB.
  @Test(arguments: [0, 1, 262_143, 262_144, 262_145, 700_000]) func storesAFile(byteCount: Int) throws {
    let store = try cache.store()
    let source = cache.outside.path.appending("source")
    try payload(byteCount).write(to: URL(filePath: source.string))
    let input = try FileDescriptor.open(source, .readOnly, options: .closeOnExec)
    defer { #expect(throws: Never.self) { try input.close() } }
    #expect(try store.store(contentsOf: input, for: "key", ttl: .seconds(9), locks: .one) == Int64(byteCount))
    let blob = try store.load("key")
    #expect(blob?.payload == payload(byteCount))
    #expect(blob?.header.ttl == 9)
    #expect(blob?.header.refCount == 1)
    #expect(try store.verify().soundRecords == 1)
  }

  /// S7: input that arrives in small parts.
  @Test(.timeLimit(.minutes(30))) func storesAPipe() throws {
    let store = try cache.store()
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    defer { #expect(throws: Never.self) { try readEnd.close() } }
    let bytes = payload(300_000)
    let writer = Thread {
      for start in stride(from: 0, to: bytes.count, by: 7001) {
        let piece = bytes[start..<min(start + 7001, bytes.count)]
        #expect(throws: Never.self) { try writeEnd.writeAll(piece) }
      }
      #expect(throws: Never.self) { try writeEnd.close() }
    }
    writer.start()
    #expect(try store.store(contentsOf: readEnd, for: "key") == 300_000)
    #expect(try store.load("key")?.payload == bytes)
  }

  /// S7, S6, S5.
  @Test func inputThatIsTooLongOrUnreadableLeavesTheOldRecord() throws {
    let store = try cache.store { $0.limits.payload = 1000 }
    try store.store(payload(10), for: "key")
    let source = cache.outside.path.appending("source")
    try payload(1001).write(to: URL(filePath: source.string))
    let input = try FileDescriptor.open(source, .readOnly, options: .closeOnExec)
    expect(.payloadTooLarge) { try store.store(contentsOf: input, for: "key") }
    try input.close()
    // Small enough to be read.
    try payload(1000).write(to: URL(filePath: source.string))
    let writeOnly = try FileDescriptor.open(source, .writeOnly, options: .closeOnExec)
    let error = expect(.fileSystem) { try store.store(contentsOf: writeOnly, for: "key") }
    try writeOnly.close()
    #expect(error?.errno == .badFileDescriptor)
    #expect(error?.systemCall == "read(2)")
    #expect(try store.load("key")?.payload == payload(10))
    #expect(try cache.files() == ["ke/key"])
  }

  /// S9.
  @Test func checksummedFormatCarriesChecksumAndDigest() throws {
    try cache.store().store(payload(10), for: "key")
    let header = try cache.header("ke/key")
    #expect(header.flags == [.payloadChecksum, .keyDigest])
    #expect(header.payloadChecksum == CRC32.checksum(of: payload(10).bytes))
    #expect(header.keyDigest == NameDigest.digest(ofFileName: "key"))
    #expect(header.reserved1 == 0 && header.reserved4 == 0)
  }

  /// S9.
  @Test func referenceFormatIsSPTPersistentCaches() throws {
    let store = try cache.store { $0.format = .reference }
    cache.clock.now = UnixTime(seconds: 1488)
    try store.store(payload(400), for: "key", ttl: .seconds(64), locks: .one)
    let expected = RecordHeader(refCount: 1, ttl: 64, updateTime: 1488, payloadSize: 400)
    #expect(try cache.header("ke/key") == expected)
    #expect(expected.crc == 0xA459_05C7)
    #expect(try store.load("key")?.payload == payload(400))
  }

  /// S9: every operation accepts SPTPersistentCache's records and keeps their format.
  @Test func referenceRecordsAreTakenByEveryOperation() throws {
    let store = try cache.store()
    let time = UInt64(cache.now)
    try cache.write(record(RecordHeader(updateTime: time, payloadSize: 0), [1, 2, 3]), to: "ke/key")
    cache.clock.advance(by: 5)
    #expect(try store.load("key")?.payload == Data([1, 2, 3]))
    #expect(try store.lock("key") == .done)
    #expect(try store.touch("key") == .done)
    #expect(try cache.header("ke/key") == RecordHeader(refCount: 1, updateTime: time + 5, payloadSize: 3))
    #expect(try store.verify().soundRecords == 1)
    #expect(try store.unlock("key") == .done)
    cache.clock.advance(by: 601)
    #expect(try store.collect().expired == 1)
  }

  /// S9.
  @Test func headerChangesKeepAllOtherFields() throws {
    let store = try cache.store()
    var header = RecordHeader(
      refCount: 3, updateTime: UInt64(cache.now), payloadSize: 1, reserved2: 22, reserved3: 33, reserved4: 44)
    header.reserved1 = 11
    try cache.write(record(header, [7]), to: "ke/key")
    try store.lock("key")
    header.refCount = 4
    #expect(try cache.header("ke/key") == header)
    cache.clock.advance(by: 1)
    try store.touch("key")
    header.updateTime += 1
    #expect(try cache.header("ke/key") == header)
    #expect(try cache.bytes("ke/key").count == 65)
  }

  /// S8.
  @Test(arguments: [Array("not a record".utf8), [], [UInt8](repeating: 0, count: 64)])
  func damagedRecordIsReplaced(bytes: [UInt8]) throws {
    let store = try cache.store()
    try cache.write(bytes, to: "ke/key")
    try store.store(payload(5), for: "key")
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// The blob is stored from a path. A missing file is an error, and leaves the old blob.
  @Test func storesAFileByItsPath() throws {
    let store = try cache.store()
    let source = cache.outside.url("source")
    try payload(700_000).write(to: source)
    #expect(try store.store(contentsOf: FilePath(source.path), for: "key", ttl: .seconds(5)) == 700_000)
    #expect(try store.load("key")?.payload == payload(700_000))
    let absent = FilePath(source.path + "-absent")
    let error = expect(.fileSystem) { try store.store(contentsOf: absent, for: "key") }
    #expect(error?.errno == .noSuchFileOrDirectory && error?.path == absent)
    #expect(try store.load("key")?.payload == payload(700_000))
  }

  @Test(.timeLimit(.minutes(30))) func waitsForInputThatDoesNotBlock() throws {
    let (reader, writer) = try FileDescriptor.pipe()
    defer { try? reader.close() }
    try check(fcntl(reader.rawValue, F_SETFL, O_NONBLOCK), "fcntl")
    let thread = Thread {
      // A delay, so that the first read finds no data.
      usleep(50_000)
      #expect(throws: Never.self) { try writer.closeAfter { try writer.writeAll(payload(10)) } }
    }
    thread.start()
    #expect(try cache.store().store(contentsOf: reader, for: "key") == 10)
    #expect(try cache.store().load("key")?.payload == payload(10))
  }

  /// S7: the lifetime of a blob begins when all its input was read.
  @Test(.timeLimit(.minutes(30))) func slowInputDoesNotExpireMeanwhile() throws {
    let (reader, writer) = try FileDescriptor.pipe()
    defer { try? reader.close() }
    let store = try cache.store()
    let clock = cache.clock
    let thread = Thread {
      #expect(throws: Never.self) {
        try writer.closeAfter {
          // More than a pipe's capacity, so the reader has started.
          try writer.writeAll(payload(200_000))
          clock.advance(by: 100)
        }
      }
    }
    thread.start()
    #expect(try store.store(contentsOf: reader, for: "key", ttl: .seconds(60)) == 200_000)
    #expect(try store.load("key")?.payload == payload(200_000))
  }

  /// S5: waiting for input fails.
  @Test(.timeLimit(.minutes(30))) func inputThatCannotBeWaitedForIsAnError() throws {
    let (reader, writer) = try FileDescriptor.pipe()
    try reader.closeAfter {
      try writer.closeAfter {
        try check(fcntl(reader.rawValue, F_SETFL, O_NONBLOCK), "fcntl")
        let trace = CallTrace()
        let store = try cache.store(files: trace.files)
        trace.onCall { call, _ in call == .poll ? .fail(.noMemory) : nil }
        let error = expect(.fileSystem) { try store.store(contentsOf: reader, for: "key") }
        #expect(error?.errno == .noMemory)
        #expect(error?.systemCall == "poll(2)")
        #expect(try cache.files().isEmpty)
      }
    }
  }

  /// S7: blocks of a large file are reserved, and unused ones are released.
  @Test func blocksOfALargeFileAreSetAside() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    let source = cache.outside.path.appending("source")
    let bytes = payload((1 << 20) + 1)
    try bytes.write(to: URL(filePath: source.string))
    try store.store(payload(1), for: "first")
    _ = trace.take()
    try store.store(contentsOf: source, for: "key")
    #expect(trace.count(.reserve) == 1 && trace.count(.truncate) == 0)
    #expect(try store.load("key")?.payload == bytes)
    // The source is truncated before it is read.
    trace.onCall { call, _ in
      guard call == .reserve else { return nil }
      trace.onCall(nil)
      #expect(truncate(source.string, 5000) == 0)
      return nil
    }
    #expect(try store.store(contentsOf: source, for: "key") == 5000)
    #expect(trace.count(.truncate) == 1)
    #expect(try store.load("key")?.payload == bytes.prefix(5000))
    trace.onCall { call, _ in call == .reserve ? .fail(.noSpace) : nil }
    try bytes.write(to: URL(filePath: source.string))
    let error = expect(.fileSystem) { try store.store(contentsOf: source, for: "key") }
    #expect(error?.errno == .noSpace && error?.systemCall == "fallocate(2)")
    #expect(try cache.files() == ["fi/first", "ke/key"])
  }

  /// M6: if a collection frees no space, the store is not tried again.
  @Test func inputIsNotStoredWhereTheVolumeStaysFull() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files) { $0.limits.collectsOnStore = true }
    let source = cache.outside.path.appending("source")
    try payload(10).write(to: URL(filePath: source.string))
    trace.onCall { call, _ in call == .write ? .fail(.noSpace) : nil }
    let error = expect(.fileSystem) { try store.store(contentsOf: source, for: "key") }
    #expect(error?.errno == .noSpace)
    #expect(trace.count { $0.call == .write && $0.path.contains("/ke/") } == 1)
    #expect(try cache.files().isEmpty)
  }
}
