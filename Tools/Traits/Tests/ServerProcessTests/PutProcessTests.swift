import BlobRecord
import BlobStore
import Foundation
import Testing

/// The effect of a PUT on the directory, for each way in which it can end.
@Suite(.serialized, .timeLimit(.minutes(5))) struct PutProcessTests {
  enum End: CaseIterable {
    case close, halfClose, reset
  }

  private static let bodies = [
    "Content-Length: 10\r\n\r\n123456789", "Content-Length: 600000\r\n\r\n" + String(repeating: "x", count: 400_000),
    "Transfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n", "Transfer-Encoding: chunked\r\n\r\n4\r\nWi",
    "Transfer-Encoding: chunked\r\n\r\n4\r\nWiki\r\n0\r\n", "Transfer-Encoding: chunked\r\n\r\n",
  ]

  @Test(arguments: End.allCases, 0..<bodies.count) func whatBreaksOffStoresNothing(end: End, body: Int) throws {
    let server = try ServerProcess()
    do {
      let connection = try server.connect()
      try connection.send("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\n" + Self.bodies[body])
      switch end {
      case .close: break
      case .halfClose:
        connection.endSending()
        #expect(try connection.answer().status == 400)
      case .reset: connection.reset()
      }
    }
    // The server detects the end of the connection asynchronously, and exits only after that.
    server.send(SIGTERM)
    #expect(server.status() == 0)
    #expect(try server.store().load("a") == nil)
    #expect(server.temporaryFiles() == [])
  }

  @Test func aServerThatStopsFinishesWhatIsUnderWay() throws {
    let server = try ServerProcess()
    let (idle, busy) = (try server.connect(), try server.connect())
    try busy.send("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\n")
    #expect(try busy.answer().status == 100)
    try busy.send("one")
    server.send(SIGTERM)
    // The end of the idle connection shows that the server has received the signal.
    #expect(idle.hasEnded)
    try busy.send("two")
    #expect(try busy.answer().status == 201)
    #expect(busy.hasEnded)
    #expect(server.status() == 0)
    #expect(try server.store().load("a")?.payload == Data("onetwo".utf8))
  }

  /// Each client repeatedly replaces a key with small and large blobs, with a length or in chunks.
  @Test func aReplacementThatWasAcknowledgedOutlivesAKill() async throws {
    let server = try ServerProcess()
    /// The bytes of a client's blob identify its number.
    func payload(_ number: Int) -> Data {
      Data("\(number) ".utf8) + Data(repeating: UInt8(truncatingIfNeeded: number), count: [10, 400_000][number % 2])
    }
    let acknowledged = try await withThrowingTaskGroup(of: (client: Int, last: Int).self) { group in
      for client in 0..<4 {
        group.addTask {
          var last = 0
          guard let connection = try? server.connect() else { return (client, last) }
          // The kill interrupts the other clients' requests.
          defer { if client == 0 { server.send(SIGKILL) } }
          while client > 0 || last < 60 {
            let body = payload(last + 1)
            let path = ["ccache/0", "sccache/a/1", "v1/blobs/2", "gradle/3"][client]
            do {
              if (last / 2).isMultiple(of: 2) {
                try connection.send(
                  "PUT /\(path) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(body.count)\r\n\r\n")
                try connection.send(body)
              } else {
                try connection.send(
                  "PUT /\(path) HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + String(body.count, radix: 16) + "\r\n")
                try connection.send(body + Data("\r\n0\r\n\r\n".utf8))
              }
              guard [201, 204].contains(try connection.answer().status) else { return (client, last) }
            } catch {
              return (client, last)
            }
            last += 1
          }
          return (client, last)
        }
      }
      return try await group.reduce(into: [Int: Int]()) { $0[$1.client] = $1.last }
    }
    #expect(acknowledged[0] == 60)
    let store = try server.store()
    for (client, key) in ["ccache/0", "sccache/a/1", "2", "gradle/3"].enumerated() {
      let last = try #require(acknowledged[client])
      let stored = try store.load(BlobKey(key))?.payload
      // The blob that was in progress at the kill may be stored completely.
      let expected = [last > 0 ? payload(last) : nil, payload(last + 1)]
      #expect(expected.contains(stored), "\(key): \(last)")
    }
    #expect(try store.verify().damagedFiles == 0)
  }

  @Test func whatWasAcknowledgedOutlivesAKill() async throws {
    let server = try ServerProcess()
    let large = Data(repeating: 7, count: 300_000)
    let acknowledged = try await withThrowingTaskGroup(of: [String].self) { group in
      for client in 0..<4 {
        group.addTask {
          var keys: [String] = []
          // Another client may have already killed the server.
          guard let connection = try? server.connect() else { return keys }
          // The other clients continue until the server is killed, so the first client must kill it in any case.
          defer { if client == 0 { server.send(SIGKILL) } }
          while true {
            let key = "\(client)-\(keys.count)"
            let payload = keys.count.isMultiple(of: 2) ? Data(key.utf8) : large
            do {
              try connection.send(
                "PUT /v1/blobs/\(key) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(payload.count)\r\n\r\n")
              try connection.send(payload)
              guard try connection.answer().status == 201 else { return keys }
            } catch {
              return keys
            }
            keys.append(key)
            if client == 0, keys.count == 40 { return keys }
          }
        }
      }
      return try await group.reduce(into: []) { $0 += $1 }
    }
    #expect(acknowledged.count >= 40)
    let store = try server.store()
    for key in acknowledged {
      let payload = try store.load(BlobKey(key))?.payload
      let number = Int(key.split(separator: "-")[1])!
      #expect(payload == (number.isMultiple(of: 2) ? Data(key.utf8) : large), "\(key)")
    }
    #expect(try store.verify().damagedFiles == 0)
  }
}
