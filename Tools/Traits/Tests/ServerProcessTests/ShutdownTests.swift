import Foundation
import Testing

/// The end of the program after a signal.
@Suite(.timeLimit(.minutes(5))) struct ShutdownTests {
  /// The program ends although all threads of its tasks are blocked, here by a log that nobody reads.
  @Test(arguments: [SIGTERM, SIGINT]) func theProgramEndsWhateverIsRunning(signal: Int32) throws {
    let server = try ServerProcess(["--log-requests"], stallsErrors: true)
    let target = "/v1/blobs/" + String(repeating: "k", count: 10_000)
    let connections = try (0..<64).map { _ in try server.connect() }
    // The pipe takes the lines of a few requests.
    for connection in connections { try connection.send("GET \(target) HTTP/1.1\r\nHost: localhost\r\n\r\n") }
    server.send(signal)
    #expect(server.status() == 0)
  }
}
