import BlobCache
import BlobCacheServer
import Foundation
import Logging
import SystemPackage
import Testing

/// The limits of a client's resources: connections, files, and time.
@Suite(.serialized, .timeLimit(.minutes(5))) struct PatienceTests {
  /// Connections leave enough descriptors to open files.
  @Test func connectionsLeaveDescriptorsForFiles() throws {
    let server = try ServerProcess(descriptors: 64)
    let connections = try (0..<20).map { _ in try server.connect() }
    func putOnEach() throws {
      for connection in connections {
        try connection.send("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\none")
        #expect([201, 204].contains(try connection.answer().status))
      }
    }
    // A connection has its place once it is answered.
    try putOnEach()
    let others = try (0..<40).map { _ in try server.connect() }
    try withExtendedLifetime(others) { try putOnEach() }
  }

  /// A client that sends single bytes makes no progress, so its connection is closed.
  @Test func aClientThatSendsByteByByteIsCutOff() async throws {
    try await withServer(patience: .milliseconds(300)) { port in
      let connection = try Connection(port: port)
      try connection.send("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n")
      let end = ContinuousClock.now + .seconds(20)
      var isCutOff = false
      while !isCutOff, ContinuousClock.now < end {
        try await Task.sleep(for: .milliseconds(50))
        do { try connection.send("x") } catch { isCutOff = true }
      }
      #expect(isCutOff)
    }
  }

  #if os(Linux)
    /// One client leaves places to the others, and all are told that the server works.
    @Test func theHealthIsToldWhenNoPlaceIsFree() async throws {
      try await withServer(patience: .seconds(300), connections: 64) { port in
        var held: [Connection] = []
        func status(_ path: String, host: UInt32) throws -> Int {
          held.append(try Connection(port: port, host: host))
          return try Self.status(held[held.count - 1], path)
        }
        // Each connection keeps its place after its response.
        for count in 1...60 { #expect(try status("/v1/blobs/none", host: 1) == (count <= 48 ? 404 : 503), "\(count)") }
        for count in 1...20 { #expect(try status("/v1/blobs/none", host: 2) == (count <= 16 ? 404 : 503), "\(count)") }
        // Requests without an end do not keep the last connections.
        let first = held.count
        for _ in 0..<20 {
          held.append(try Connection(port: port))
          try held.last?.send("GET /healthz HTTP/1.1\r\n")
        }
        for path in ["/healthz", "/readyz", "/healthz?x"] { #expect(try status(path, host: 3) == 200) }
        #expect(try status("/healthzz", host: 3) == 503)
        #expect(held[first].hasEnded)
        held = []
        while try status("/v1/blobs/none", host: 1) != 404 {}
      }
    }

    /// A request without a place is the last one of its connection.
    private static func status(_ connection: Connection, _ path: String = "/v1/blobs/none") throws -> Int {
      try connection.send("GET \(path) HTTP/1.1\r\nHost: localhost\r\n\r\n")
      let answer = try connection.answer()
      if answer.status == 503 {
        #expect(answer.fields["retry-after"] == "1")
        #expect(answer.fields["connection"] == "close")
      }
      return answer.status
    }
  #endif

  private func withServer(
    patience: Duration, connections: Int = 1024, _ body: @escaping @Sendable (UInt16) async throws -> Void
  ) async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "patience-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: directory) }
    let cache = try BlobCache(directory: FilePath(directory.path))
    var configuration = BlobServer.Configuration()
    configuration.address = .host("127.0.0.1", port: 0)
    configuration.limits.patience = patience
    configuration.limits.connections = connections
    let (ports, continuation) = AsyncStream.makeStream(of: UInt16.self)
    let server = BlobServer(
      responder: BlobResponder(cache: cache), configuration: configuration, logger: Logger(label: "patience")
    ) { address in
      if case .host(_, let port) = address { continuation.yield(UInt16(port)) }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await server.run() }
      group.addTask {
        for await port in ports { return try await body(port) }
      }
      try await group.next()
      group.cancelAll()
      // Errors of the cancelled server are ignored.
      while (try? await group.next()) != nil {}
    }
    try await cache.close()
  }
}
