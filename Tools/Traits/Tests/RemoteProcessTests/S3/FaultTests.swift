import BlobCacheRemote
import Foundation
import Testing

@testable import BlobCache
@testable import BlobCacheRemote

/// The behavior of a cache if the network or the server fails.
@Suite(.enabled(if: SeaweedFS.isThere, "no weed; Tools/prerequisites installs it"), .timeLimit(.minutes(5)))
struct FaultTests {
  private let namespace = "faults/\(UUID().uuidString)"
  private static let payload = Records.bytes(200_000, seed: 7)

  private static func answer(_ status: String, _ fields: String = "") -> FaultProxy.Fault {
    .answer("HTTP/1.1 \(status)\r\n\(fields)Content-Length: 0\r\nConnection: close\r\n\r\n")
  }

  private static let faults: [(FaultProxy.Fault, RemoteError.Kind)] = [
    (.refuse, .unreachable), (.hang, .timedOut), (.stall(after: 0), .timedOut), (.stall(after: 100_000), .timedOut),
    (.truncate(after: 0), .unreachable), (.truncate(after: 100_000), .unreachable),
    (.reset(after: 100_000), .unreachable),
    (.flip(at: 100_000), .damaged), (answer("403 Forbidden"), .forbidden),
    (answer("429 Too Many Requests", "Retry-After: 1\r\n"), .throttled(.seconds(1))),
    (answer("503 Service Unavailable"), .throttled(nil)), (answer("500 Internal Server Error"), .failed),
    (answer("301 Moved Permanently", "Location: http://127.0.0.1:1/\r\n"), .refused),
    (.answer("SSH-2.0-OpenSSH_9.2\r\n"), .failed),
  ]

  private func engine(_ port: Int) async throws -> S3Engine {
    var settings = try await SeaweedFS.shared.value.settings()
    settings.endpoint = try HTTPEndpoint("http://127.0.0.1:\(port)")
    return try S3Engine(settings)
  }

  private func fill(_ keys: [BlobKey]) async throws {
    let machine = try Machine(try await engine(try await SeaweedFS.shared.value.port), namespace: namespace)
    for key in keys { try await machine.cache.store(Self.payload, for: key, ttl: .seconds(3600)) }
    try await machine.cache.close()
  }

  /// A load is a miss and reports the fault; a store succeeds locally. After the fault, the remote tier answers again.
  @Test(arguments: faults) func aFaultIsAMiss(_ fault: FaultProxy.Fault, kind: RemoteError.Kind) async throws {
    try await fill(["one", "two"])
    let proxy = try FaultProxy(to: try await SeaweedFS.shared.value.port)
    let isTimed = kind == .timedOut
    let machine = try Machine(try await engine(proxy.port), namespace: namespace) { tier in
      if isTimed { (tier.deadlines.firstByte, tier.deadlines.progress) = (.milliseconds(300), .milliseconds(300)) }
      if isTimed { tier.deadlines.change = .milliseconds(300) }
      (tier.breaker.pause, tier.breaker.longestPause) = (.milliseconds(100), .milliseconds(200))
    }
    try proxy.set(fault)
    var events = machine.cache.events.makeAsyncIterator()
    #expect(try await machine.cache.load("one") == nil)
    guard case .remoteFailed(let error) = await events.next()?.kind else {
      Issue.record("no event")
      return
    }
    let failure = try #require(error as? RemoteError)
    #expect(failure.kind == kind, "\(failure)")
    #expect(failure.message.hasPrefix("s3://cache"))
    let status = try #require(machine.cache.remoteStatus)
    let isMiss = kind == .forbidden
    #expect(status.failures == (isMiss ? 0 : 1) && status.hits == 0 && status.misses == (isMiss ? 1 : 0))
    #expect(status.damaged == (kind == .damaged ? 1 : 0))
    #expect(try await machine.cache.load("here", orStore: { Data("made".utf8) }).payload == Data("made".utf8))
    try proxy.set(.none)
    try await eventually("the tier answers again") { try await machine.cache.load("two") != nil }
    #expect(try await machine.cache.load("two")?.payload == Self.payload)
    try await machine.cache.close()
  }

  /// A store during a fault succeeds locally, and is not uploaded. A later upload is complete.
  @Test(arguments: [FaultProxy.Fault.refuse, .truncate(after: 0), .reset(after: 0), answer("503 Slow Down")])
  func aStoreThatFailsIsTold(_ fault: FaultProxy.Fault) async throws {
    let proxy = try FaultProxy(to: try await SeaweedFS.shared.value.port)
    let machine = try Machine(try await engine(proxy.port), namespace: namespace) {
      ($0.breaker.pause, $0.breaker.longestPause) = (.milliseconds(100), .milliseconds(200))
    }
    try proxy.set(fault)
    try await machine.cache.store(Self.payload, for: "key", ttl: .seconds(3600))
    #expect(try await machine.cache.load("key")?.payload == Self.payload)
    #expect(machine.cache.remoteStatus?.uploads == 0)
    try proxy.set(.none)
    try await eventually("stores go there again") {
      try await machine.cache.store(Self.payload, for: "key", ttl: .seconds(3600))
      return machine.cache.remoteStatus.map { $0.uploads > 0 } == true
    }
    let other = try Machine(try await engine(proxy.port), namespace: namespace)
    #expect(try await other.cache.load("key")?.payload == Self.payload)
    for machine in [machine, other] { try await machine.cache.close() }
  }

  /// A hanging request ends when its task is cancelled, long before any deadline.
  @Test func aCancelledRequestEnds() async throws {
    let proxy = try FaultProxy(to: try await SeaweedFS.shared.value.port)
    try proxy.set(.hang)
    let engine = try await engine(proxy.port)
    let record = try await Records().inFile(Self.payload)
    let name = RemoteName("\(namespace)/hung")
    let requests: [@Sendable () async throws -> Void] = [
      { _ = try await engine.get(name) }, { _ = try await engine.head(name) },
      { try await engine.put(record, as: name) },
      { try await engine.remove(name) }, { _ = try await engine.list(name, page: nil) },
    ]
    for request in requests {
      let task = Task { try await request() }
      await Task.yield()
      task.cancel()
      await #expect(throws: (any Error).self) { try await task.value }
    }
    try proxy.set(.none)
    // A connection may arrive too late for its request, and end with the fault.
    try await eventually("it goes on") {
      do { return try await engine.head(name) == nil } catch is RemoteError { return false }
    }
    await engine.close()
    // A closed engine performs no requests, and reports that it is closed.
    let closed = await #expect(throws: RemoteError.self) { _ = try await engine.get(name) }
    #expect(closed?.message.contains("the engine is closed") == true, "\(String(describing: closed))")
  }

  /// The response of Amazon to a request for another region.
  @Test func aWrongRegionIsNamed() async throws {
    let proxy = try FaultProxy(to: try await SeaweedFS.shared.value.port)
    let body = "<Error><Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region></Error>"
    try proxy.set(.answer("HTTP/1.1 400 Bad Request\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"))
    let engine = try await engine(proxy.port)
    let error = await #expect(throws: RemoteError.self) { _ = try await engine.get(RemoteName("a")) }
    #expect(error?.kind == .refused)
    #expect(error?.message.contains("is not in region us-east-1; set region to eu-west-1") == true)
    await engine.close()
  }

  /// A server that is suspended, resumed, and killed.
  @Test func aServerStopsAndEnds() async throws {
    let seaweed = try await SeaweedFS()
    let engine = { try S3Engine(try seaweed.settings()) }
    let writer = try Machine(try engine(), namespace: namespace)
    for key in ["one", "two", "three"] as [BlobKey] { try await writer.cache.store(Self.payload, for: key) }
    try await writer.cache.close()
    let machine = try Machine(try engine(), namespace: namespace) { tier in
      (tier.deadlines.firstByte, tier.deadlines.progress) = (.seconds(1), .seconds(1))
      (tier.breaker.pause, tier.breaker.longestPause) = (.milliseconds(100), .milliseconds(200))
    }
    seaweed.server.send(SIGSTOP)
    #expect(try await machine.cache.load("one") == nil)
    seaweed.server.send(SIGCONT)
    try await eventually("the server answers again") { try await machine.cache.load("two") != nil }
    seaweed.server.kill()
    #expect(try await machine.cache.load("three") == nil)
    #expect(try await machine.cache.load("two")?.payload == Self.payload)
    #expect(try #require(machine.cache.remoteStatus).failures >= 2)
    try await machine.cache.close()
  }
}
