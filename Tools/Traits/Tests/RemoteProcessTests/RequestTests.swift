import BlobCacheRemote
import Foundation
import Synchronization
import Testing

@testable import BlobCacheRemote

/// The requests of engines, byte for byte.
@Suite(.timeLimit(.minutes(5))) struct RequestTests {
  private struct Request: Sendable {
    var lines: [String] = []
    var body: [UInt8] = []

    /// Returns the value of a field, whose name is in lower case.
    subscript(name: String) -> String? {
      lines.first { $0.lowercased().hasPrefix("\(name): ") }.map { String($0.dropFirst(name.count + 2)) }
    }
  }

  /// The received requests, in order.
  private final class Received: Sendable {
    private let requests = Mutex<[Request]>([])

    var all: [Request] { requests.withLock { $0 } }

    /// Reads one request, and responds with an empty 200.
    func serve(_ connection: Connection) {
      var bytes: [UInt8] = []
      var request = Request()
      while request.lines.isEmpty {
        let more = connection.read()
        guard !more.isEmpty else { return connection.close() }
        bytes += more
        guard let end = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { continue }
        let head = String(decoding: bytes[..<end.lowerBound], as: UTF8.self)
        request.lines = head.split(separator: "\r\n").map { String($0) }
        request.body = Array(bytes[end.upperBound...])
      }
      let count = request["content-length"].flatMap { Int($0) } ?? 0
      while request.body.count < count {
        let more = connection.read()
        guard !more.isEmpty else { return connection.close() }
        request.body += more
      }
      requests.withLock { $0.append(request) }
      connection.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".utf8)
      connection.close()
    }
  }

  private let received = Received()
  private let server: Listener
  private let name = RemoteName("a b/ä%")

  init() throws { server = try Listener { [received] in received.serve($0) } }

  private func send(
    _ engine: any RemoteEngine, _ request: (any RemoteEngine) async throws -> Void
  ) async throws -> Request {
    try await request(engine)
    await engine.close()
    return try #require(received.all.last)
  }

  private func s3() throws -> S3Engine {
    var settings = S3Engine.Settings(
      bucket: "cache", credentials: .fixed(accessKey: "AK", secretKey: "hidden", sessionToken: "ST"))
    settings.endpoint = try HTTPEndpoint("http://127.0.0.1:\(server.port)")
    settings.now = { UnixTime(seconds: 1_795_722_330) }
    return try S3Engine(settings)
  }

  private func http(_ path: String, _ credential: HTTPCredential) throws -> HTTPEngine {
    var settings = HTTPEngine.Settings(try HTTPEndpoint("http://127.0.0.1:\(server.port)\(path)"))
    settings.credential = credential
    return try HTTPEngine(settings)
  }

  @Test func aPutInMemoryIsSignedWhole() async throws {
    let record = try Records().inMemory(Data("payload".utf8))
    let request = try await send(try s3()) { try await $0.put(record, as: name) }
    #expect(request.lines.first == "PUT /cache/a%20b/%C3%A4%25 HTTP/1.1")
    #expect(request["host"] == "127.0.0.1:\(server.port)")
    #expect(request["content-length"] == "\(record.byteCount)")
    #expect(request["x-amz-content-sha256"] == SignatureV4.digest(of: try #require(record.bytes)))
    let checksum = [24, 16, 8, 0].map { UInt8(record.checksum >> $0 & 255) }
    #expect(request["x-amz-checksum-crc32"] == Data(checksum).base64EncodedString())
    #expect(request["x-amz-date"] == "20261126T194530Z")
    #expect(request["x-amz-security-token"] == "ST")
    let authorization = try #require(request["authorization"])
    #expect(authorization.hasPrefix("AWS4-HMAC-SHA256 Credential=AK/20261126/us-east-1/s3/aws4_request, "))
    let signed = "host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date;x-amz-security-token"
    #expect(authorization.contains("SignedHeaders=\(signed), "))
    #expect(request.body == Array(try #require(record.bytes)))
    #expect(!request.lines.contains { $0.contains("hidden") })
  }

  /// The sent path equals the path that servers sign, for any endpoint path.
  @Test func aPathIsSentAsItIsSigned() async throws {
    var settings = S3Engine.Settings(bucket: "cache", credentials: .fixed(accessKey: "AK", secretKey: "hidden"))
    settings.endpoint = try HTTPEndpoint(
      "http://127.0.0.1:\(server.port)/a+b/%c3%a4/%7Ex/c%2fd/e@f".replacing("@", with: "="))
    let engine = try S3Engine(settings)
    let request = try await send(engine) { _ = try await $0.get(name) }
    #expect(request.lines.first == "GET /a%2Bb/%C3%A4/~x/c%2Fd/e%3Df/cache/a%20b/%C3%A4%25 HTTP/1.1")
  }

  @Test func aPutFromAFileIsNotReadTwice() async throws {
    let record = try await Records().inFile(Records.bytes(3_000_000, seed: 4))
    let request = try await send(try s3()) { try await $0.put(record, as: name) }
    #expect(request["x-amz-content-sha256"] == "UNSIGNED-PAYLOAD")
    #expect(request["x-amz-checksum-crc32"] != nil)
    #expect(request["content-length"] == "\(record.byteCount)")
    #expect(request["transfer-encoding"] == nil)
    #expect(try await Data(request.body) == record.collected())
  }

  @Test func aHeaderIsARange() async throws {
    let request = try await send(try s3()) { _ = try await $0.head(name) }
    #expect(request["range"] == "bytes=0-63")
    #expect(request["x-amz-content-sha256"] == SignatureV4.digest(of: Data()))
    let other = try await send(try http("/base", .none)) { _ = try await $0.head(name) }
    #expect(other.lines.first == "GET /base/a%20b/%C3%A4%25 HTTP/1.1")
    #expect(other["range"] == "bytes=0-63")
    #expect(other["authorization"] == nil)
    // A server that leads back recognizes its own process.
    let sender = try #require(other["x-blobcache-tier"])
    #expect(try await self.send(try http("", .none)) { _ = try await $0.get(name) }["x-blobcache-tier"] == sender)
  }

  @Test func theCallerSaysWhoItIs() async throws {
    let basic = try await send(try http("", .basic(user: "Aladdin", password: .fixed("open sesame")))) {
      _ = try await $0.get(name)
    }
    #expect(basic.lines.first == "GET /a%20b/%C3%A4%25 HTTP/1.1")
    // The example of RFC 7617, 2.
    #expect(basic["authorization"] == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
    let bearer = try await send(try http("", .bearer(.fixed("token")))) { try await $0.remove(name) }
    #expect(bearer.lines.first == "DELETE /a%20b/%C3%A4%25 HTTP/1.1")
    #expect(bearer["authorization"] == "Bearer token")
  }

  @Test func onlyBlobCacheIsToldHowLongARecordLives() async throws {
    let record = try Records().inMemory(Data("payload".utf8))
    let other = try await send(try http("/dav", .none)) { try await $0.put(record, as: name) }
    #expect(other["x-blobcache-ttl"] == nil)
    #expect(other.body == Array(try #require(record.bytes)))
    let own = try await send(try http("/v1/blobs", .none)) { try await $0.put(record, as: name) }
    let ttl = try #require(own["x-blobcache-ttl"].flatMap { Int64($0) })
    #expect((3000...3660).contains(ttl))
  }

  @Test func aListIsAskedForInPages() async throws {
    let error = await #expect(throws: RemoteError.self) {
      _ = try await send(try s3()) { _ = try await $0.list(RemoteName("a&b/"), page: "next==") }
    }
    // The response contains no list.
    #expect(error?.kind == .failed)
    let request = try #require(received.all.last)
    #expect(request.lines.first == "GET /cache?continuation-token=next%3D%3D&list-type=2&prefix=a%26b%2F HTTP/1.1")
  }
}
