import BlobRecord
import Foundation
import Testing

@testable import BlobCacheRemote

/// Behavior that is specific to Redis and Valkey, without a cluster.
@Suite(.timeLimit(.minutes(5)), .enabled(if: ValkeyProgram.redis.missing == nil, "no redis-server"))
struct ValkeyEngineTests {
  private let records: Records
  private let place = "valkey/\(UUID().uuidString)"

  init() throws { records = try Records() }

  private func name(_ part: String) -> RemoteName { RemoteName("\(place)/\(part)") }

  /// The sizes are close to the boundaries of the pieces that are read.
  @Test(arguments: [(1 << 18) - 1, 1 << 18, (1 << 18) + 1, (1 << 20) + (1 << 18), 5 << 20, 20_000_000])
  func largeObjectsComeInPieces(_ count: Int) async throws {
    let engine = try ValkeyEngine(try await ValkeyNode.redis.value.settings)
    let record = try await records.inFile(Records.bytes(count - 64, seed: UInt64(count)))
    #expect(record.byteCount == count)
    try await engine.put(record, as: name("large"))
    let object = try #require(try await engine.get(name("large")))
    #expect(object.byteCount == Int64(count))
    var (bytes, largest) = (Data(), 0)
    for try await piece in object.pieces {
      // The first piece is small, so that it arrives soon.
      if bytes.isEmpty { #expect(piece.count <= 1 << 18) }
      bytes.append(piece)
      largest = max(largest, piece.count)
    }
    #expect(try await bytes == record.collected())
    #expect(largest <= 1 << 20)
    #expect(try await engine.head(name("large")) == record.head)
    try await engine.remove(name("large"))
    await engine.close()
  }

  /// A load does not wait for the upload of a large value.
  @Test func largeValuesHaveConnectionsOfTheirOwn() async throws {
    let node = try await ValkeyNode(.redis)
    var settings = node.settings
    settings.connections = 1
    let engine = try ValkeyEngine(settings)
    func connections() async throws -> Int? {
      try await node.ask("CLIENT", "LIST").text.map {
        $0.split(separator: "\n").count { $0.contains(" name=blobcache ") }
      }
    }
    try await engine.put(try records.inMemory(Records.bytes(1 << 10, seed: 1)), as: name("small"))
    #expect(try await engine.head(name("small")) != nil)
    #expect(try await connections() == 1)
    try await engine.put(try records.inMemory(Records.bytes(1 << 20, seed: 1)), as: name("large"))
    #expect(try await engine.head(name("large")) != nil)
    #expect(try await connections() == 2)
    await engine.close()
  }

  @Test func anObjectThatChangesWhileItIsReadIsAnError() async throws {
    let node = try await ValkeyNode.redis.value
    let engine = try ValkeyEngine(node.settings)
    try await engine.put(try records.inMemory(Records.bytes(3 << 20, seed: 1)), as: name("changes"))
    let object = try #require(try await engine.get(name("changes")))
    try await engine.put(try records.inMemory(Records.bytes(2 << 20, seed: 2)), as: name("changes"))
    await #expect { for try await _ in object.pieces {} } throws: { ($0 as? RemoteError)?.kind == .failed }
    try await engine.remove(name("changes"))
    await engine.close()
  }

  /// The engine still works after more cancelled downloads and requests than it has connections.
  @Test func whatIsCancelledEndsAndDisturbsNoOther() async throws {
    var settings = try await ValkeyNode.redis.value.settings
    settings.connections = 1
    let engine = try ValkeyEngine(settings)
    let record = try records.inMemory(Records.bytes(4 << 20, seed: 3))
    try await engine.put(record, as: name("cancelled"))
    for _ in 0..<20 {
      let (began, continuation) = AsyncStream.makeStream(of: Void.self)
      let reading = Task { [name = name("cancelled")] in
        for try await _ in try #require(try await engine.get(name)).pieces {
          continuation.yield()
          while !Task.isCancelled { await Task.yield() }
        }
      }
      let asking = Task { [name = name("cancelled")] in _ = try await engine.get(name) }
      asking.cancel()
      // The task may have ended before its cancellation.
      _ = await asking.result
      for await _ in began { break }
      reading.cancel()
      await #expect(throws: CancellationError.self) { try await reading.value }
    }
    #expect(try await engine.bytes(of: name("cancelled")) == record.bytes)
    try await engine.remove(name("cancelled"))
    await engine.close()
  }

  /// The server keeps an object for a minute after the record's expiry.
  @Test(arguments: [0, 1, 3600, 10_000_000_000]) func livesAreLimited(_ life: Int64) async throws {
    let node = try await ValkeyNode.redis.value
    let record = try records.inMemory(Data("a".utf8))
    let engine = try ValkeyEngine(node.settings, now: { UnixTime(seconds: record.expiry.seconds - life) })
    try await engine.put(record, as: name("life"))
    let rest = try #require(try await node.ask("PTTL", name("life").string).integer)
    #expect((max(1, (life + 60) * 1000 - 600_000)...(life + 60) * 1000).contains(rest))
    try await engine.remove(name("life"))
    await engine.close()
  }

  /// An expired record is not stored, and an earlier object is removed.
  @Test func anExpiredRecordIsNotPut() async throws {
    let node = try await ValkeyNode.redis.value
    let record = try records.inMemory(Data("a".utf8))
    let engine = try ValkeyEngine(node.settings, now: { UnixTime(seconds: record.expiry.seconds + 1) })
    try await node.ask("SET", name("expired").string, "earlier")
    try await engine.put(record, as: name("expired"))
    #expect(try await engine.get(name("expired")) == nil)
    await engine.close()
  }

  /// The engine sends no lifetime that would overflow the server's clock.
  @Test func aRecordMayLiveForEver() async throws {
    let node = try await ValkeyNode.redis.value
    let record = try records.inMemory(Data("a".utf8))
    let engine = try ValkeyEngine(node.settings, now: { UnixTime(seconds: .min) })
    try await engine.put(record, as: name("ever"))
    #expect(try await node.ask("PTTL", name("ever").string).integer == -1)
    try await engine.remove(name("ever"))
    await engine.close()
  }

  @Test func tooLargeObjectsAreTold() async throws {
    var settings = try await ValkeyNode.redis.value.settings
    settings.largestObject = 1000
    let engine = try ValkeyEngine(settings)
    #expect(engine.largestObject == 1000)
    try await engine.put(try records.inMemory(Data(count: 936)), as: name("fits"))
    let record = try await records.inFile(Data(count: 64 << 20))
    await #expect {
      try await engine.put(record, as: name("large"))
    } throws: { error in
      guard let error = error as? RemoteError else { return false }
      return error.kind == .unsupported && error.message.contains("1000 bytes")
        && error.message.contains("largestObject")
    }
    #expect(try await engine.get(name("large")) == nil)
    try await engine.remove(name("fits"))
    await engine.close()
  }

  @Test func aValueOfAnotherProgramIsDamage() async throws {
    let node = try await ValkeyNode.redis.value
    let engine = try ValkeyEngine(node.settings)
    try await node.ask("RPUSH", name("list").string, "a")
    await #expect { _ = try await engine.get(name("list")) } throws: { ($0 as? RemoteError)?.kind == .damaged }
    await #expect { _ = try await engine.head(name("list")) } throws: { ($0 as? RemoteError)?.kind == .damaged }
    // A store replaces the foreign value.
    let record = try records.inMemory(Data("a".utf8))
    try await engine.put(record, as: name("list"))
    #expect(try await engine.bytes(of: name("list")) == record.bytes)
    try await engine.remove(name("list"))
    await engine.close()
  }

  /// Lists ignore foreign names, including names that are not UTF-8 and names that resemble the prefix.
  @Test func listsNameTheirPrefixAlone() async throws {
    let node = try await ValkeyNode.redis.value
    let engine = try ValkeyEngine(node.settings)
    let prefix = "\(place)/[a*]?"
    let names = ["\(prefix)/x", "\(prefix)/e\u{301}", "\(prefix)\u{301}"]
    for name in names + ["\(place)/a/x", "\(place)/[a*]!/x"] { try await node.ask("SET", name, "1") }
    try await node.ask("EVAL", "return redis.call('SET', KEYS[1] .. '\\255', '1')", "1", "\(prefix)/")
    #expect(try await engine.names(RemoteName(prefix)).sorted() == names.sorted())
    for name in names + ["\(place)/a/x", "\(place)/[a*]!/x"] { try await engine.remove(RemoteName(name)) }
    #expect(try await engine.list(RemoteName(prefix), page: "0 1 nowhere").names.isEmpty)
    #expect(try await engine.list(RemoteName(prefix), page: "?").names.isEmpty)
    await engine.close()
  }

  /// A lease neither changes the object of the name nor occurs in lists.
  @Test(arguments: [ValkeyProgram.redis, .valkey]) func aLeaseIsBesideItsObject(_ program: ValkeyProgram) async throws {
    guard program.missing == nil else { return }
    let node = try await program == .redis ? ValkeyNode.redis.value : ValkeyNode.valkey.value
    let engine = try ValkeyEngine(node.settings)
    let record = try records.inMemory(Data("a".utf8))
    try await engine.put(record, as: name("leased/a"))
    #expect(try await engine.acquireLease(name("leased/a"), as: "me", for: .milliseconds(500_500)))
    #expect(try await engine.bytes(of: name("leased/a")) == record.bytes)
    #expect(try await engine.names(name("leased/")) == [name("leased/a").string])
    let life = try #require(try await node.ask("PTTL", name("leased/a").string + "/.lease").integer)
    #expect((1...500_500).contains(life))
    // The server's method to release leases is known by then.
    for holder in ["other", "me", "me"] { try await engine.releaseLease(name("leased/a"), as: holder) }
    #expect(try await node.ask("EXISTS", name("leased/a").string + "/.lease") == .integer(0))
    #expect(try await engine.bytes(of: name("leased/a")) == record.bytes)
    try await engine.remove(name("leased/a"))
    await engine.close()
  }

  @Test(arguments: [Duration.seconds(Int64.max), .seconds(Int64.min), .zero])
  func aLeaseMayBeOfAnyLength(_ time: Duration) async throws {
    let engine = try ValkeyEngine(try await ValkeyNode.redis.value.settings)
    #expect(try await engine.acquireLease(name("length"), as: "me", for: time))
    try await engine.releaseLease(name("length"), as: "me")
    await engine.close()
  }

  @Test func whatItCanIsTold() async throws {
    let engine = try ValkeyEngine(try await ValkeyNode.redis.value.settings)
    let found = try await engine.capabilities(under: name(""))
    #expect(found.conditionalPut && found.expiry && found.lists && found.leases && found.announcements)
    #expect(!found.conditionalReplace && !found.streams)
    #expect(found.largestObject == 64 << 20)
    #expect(found.notes.contains { $0.hasPrefix("Redis 7") || $0.hasPrefix("Redis 8") })
    #expect(found.notes.contains { $0.contains("no maxmemory") })
    await engine.close()
  }

  @Test(.enabled(if: ValkeyProgram.valkey.missing == nil, "no valkey-server")) func valkeyReplacesByCondition()
    async throws
  {
    let engine = try ValkeyEngine(try await ValkeyNode.valkey.value.settings)
    let found = try await engine.capabilities(under: name(""))
    #expect(found.conditionalReplace)
    #expect(found.notes.contains { $0.hasPrefix("Valkey ") })
    await engine.close()
  }

  @Test func whatIsClosedAsksNothing() async throws {
    let engine = try ValkeyEngine(try await ValkeyNode.redis.value.settings)
    #expect(try await engine.get(name("none")) == nil)
    await engine.close()
    await #expect(throws: RemoteError.self) { try await engine.get(name("none")) }
    let other = try ValkeyEngine(try await ValkeyNode.redis.value.settings)
    await other.close()
    await #expect(throws: RemoteError.self) { try await other.get(name("none")) }
  }
}
