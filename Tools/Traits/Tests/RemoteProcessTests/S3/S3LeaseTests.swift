import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCache
@testable import BlobCacheRemote

/// Leases in S3: their names, their expiry, and the server's conditions.
@Suite(.timeLimit(.minutes(5))) struct S3LeaseTests {
  private static let name = RemoteName("blobcache/v1/ab/abc")

  private func engine(_ server: ScriptedServer) throws -> S3Engine {
    var settings = S3Engine.Settings(bucket: "cache", credentials: .fixed(accessKey: "AK", secretKey: "SK"))
    settings.endpoint = try HTTPEndpoint("http://127.0.0.1:\(server.port)")
    return try S3Engine(settings)
  }

  /// No key's record has the name of a lease.
  @Test(arguments: ["abc", "abc.lease", "abc%lease", "%lease", "a", String(repeating: "%", count: 400)])
  func aLeaseHasNoRecordsName(_ key: String) throws {
    for naming in [RecordNaming.encoded, .sha256] {
      let place = try RemoteNamespace("blobcache", naming: naming).place(of: BlobKey(key))
      let part = try #require(place.name.lease.string.split(separator: "/").last)
      #expect(!naming.accepts(fileName: String(part)))
    }
  }

  @Test func leasesAreRead() {
    let lease = S3Lease(holder: "machine 1\n%", seconds: 7)
    #expect(S3Lease(lease.bytes) == lease)
    for text in ["", "a\n7\n", "blobcache lease\na\n0\n", "blobcache lease\na\nx\n", "blobcache lease\na\n7"] {
      #expect(S3Lease(text.utf8) == nil)
    }
  }

  @Test func partsOfSecondsAreWhole() {
    let times: [(Duration, Int64)] = [(.zero, 1), (.milliseconds(1), 1), (.seconds(2), 2), (.milliseconds(1900), 2)]
    for (time, seconds) in times { #expect(S3Lease.seconds(time) == seconds) }
  }

  /// Only the server's clock determines the expiry.
  @Test func aLeaseEndsByTheServersClock() {
    let lease = S3Lease(holder: "a", seconds: 60)
    let start = "Thu, 26 Nov 2026 19:45:30 GMT"
    #expect(!lease.hasEnded(modified: start, now: start))
    #expect(!lease.hasEnded(modified: start, now: "Thu, 26 Nov 2026 19:46:30 GMT"))
    #expect(lease.hasEnded(modified: start, now: "Thu, 26 Nov 2026 19:46:31 GMT"))
    #expect(!lease.hasEnded(modified: nil, now: start) && !lease.hasEnded(modified: start, now: nil))
  }

  /// A machine whose clock is fast cannot take another machine's lease.
  @Test(.enabled(if: SeaweedFS.isThere, "no weed; Tools/prerequisites installs it"))
  func anotherClockTakesNoLease() async throws {
    var settings = try await SeaweedFS.shared.value.settings()
    let first = try S3Engine(settings)
    settings.now = { UnixTime(seconds: Int64(Date().timeIntervalSince1970) + 600) }
    let second = try S3Engine(settings)
    let name = RemoteName("leases/\(UUID().uuidString)/v1/ab/abc")
    #expect(try await first.acquireLease(name, as: "first", for: .seconds(300)))
    #expect(try await !second.acquireLease(name, as: "second", for: .seconds(300)))
    try await first.releaseLease(name, as: "first")
    // A foreign object with the lease's name is kept.
    let record = try Records().inMemory(Data("record".utf8))
    try await first.put(record, as: name.lease)
    #expect(try await !first.acquireLease(name, as: "first", for: .seconds(300)))
    try await first.releaseLease(name, as: "first")
    #expect(try await first.bytes(of: name.lease) == record.bytes)
    try await first.remove(name.lease)
    for engine in [first, second] { await engine.close() }
  }

  /// A failed capability check is not repeated for each lease, and sends no list request.
  @Test func oneLookIsForAll() async throws {
    let server = try ScriptedServer { _ in ScriptedServer.answer("403 Forbidden") }
    let engine = try engine(server)
    await withTaskGroup(of: Void.self) { group in
      for index in 0..<8 {
        group.addTask {
          await #expect(throws: RemoteError.self) {
            try await engine.acquireLease(Self.name, as: "\(index)", for: .seconds(60))
          }
        }
      }
    }
    // The requests of one check: a probe and its removal.
    #expect(server.requests.map { $0.prefix { $0 != " " } } == ["PUT", "DELETE"])
    await engine.close()
  }

  /// The condition is sent only after a capability check has shown that the server supports it.
  @Test func aLeaseIsGivenBackWithoutConditions() async throws {
    let lease = String(decoding: S3Lease(holder: "me", seconds: 60).bytes, as: UTF8.self)
    let server = try ScriptedServer { head in
      if head.hasPrefix("GET") { return ScriptedServer.answer("200 OK", lease, fields: "ETag: \"1\"\r\n") }
      return ScriptedServer.answer(head.contains("if-match") ? "501 Not Implemented" : "200 OK")
    }
    let engine = try engine(server)
    try await engine.releaseLease(Self.name, as: "me")
    #expect(server.requests.count == 2)
    var seen = RemoteCapabilities()
    seen.conditionalReplace = true
    engine.didSee(seen)
    try await engine.releaseLease(Self.name, as: "me")
    #expect(server.requests.count == 5)
    await engine.close()
  }

  /// A cancelled capability check removes its probe.
  @Test(arguments: [true, false]) func aCancelledLookLeavesNothing(isS3: Bool) async throws {
    let (began, continuation) = AsyncStream.makeStream(of: Void.self)
    let list = "<ListBucketResult></ListBucketResult>"
    let server = try ScriptedServer { head in
      if head.hasPrefix("GET") { return ScriptedServer.answer("200 OK", list) }
      if head.hasPrefix("DELETE") { return ScriptedServer.answer("200 OK") }
      continuation.yield()
      return nil
    }
    let endpoint = try HTTPEndpoint("http://127.0.0.1:\(server.port)")
    let engine: any RemoteEngine = isS3 ? try engine(server) : try HTTPEngine(HTTPEngine.Settings(endpoint))
    let look = Task { try await engine.capabilities(under: RemoteName("a")) }
    for await _ in began { break }
    look.cancel()
    await #expect(throws: (any Error).self) { try await look.value }
    #expect(server.requests.last?.hasPrefix("DELETE") == true)
    await engine.close()
  }

  /// A truncated list without a valid continuation token is an error.
  @Test func aListTellsHowItGoesOn() async throws {
    let server = try ScriptedServer { head in
      let token = head.contains("continuation-token") ? "<NextContinuationToken>t</NextContinuationToken>" : ""
      let content = "<IsTruncated>true</IsTruncated><Contents><Key>a/b</Key></Contents>\(token)"
      return ScriptedServer.answer("200 OK", "<ListBucketResult>\(content)</ListBucketResult>")
    }
    let engine = try engine(server)
    for page in [nil, "t"] {
      await #expect(throws: RemoteError.self) { try await engine.list(RemoteName("a"), page: page) }
    }
    #expect(try await engine.list(RemoteName("a"), page: "s").next == "t")
    await engine.close()
  }
}
