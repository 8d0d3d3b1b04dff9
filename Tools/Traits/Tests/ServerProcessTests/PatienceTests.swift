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

  private func withServer(patience: Duration, _ body: @escaping @Sendable (UInt16) async throws -> Void) async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "patience-\(UUID().uuidString)")
    defer { try? FileManager.default.removeItem(at: directory) }
    let cache = try BlobCache(directory: FilePath(directory.path))
    var configuration = BlobServer.Configuration()
    configuration.address = .host("127.0.0.1", port: 0)
    configuration.limits.patience = patience
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
