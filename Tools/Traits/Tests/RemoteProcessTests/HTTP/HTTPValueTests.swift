import BlobCache
import Testing

@testable import BlobCacheRemote

@Suite struct HTTPValueTests {
  @Test(arguments: [
    ("https://h/a?X-Amz-Signature=secret#secret", "https://h/a"), ("https://user:secret@h/a", "https://h/a"),
    ("/a/b", "/a/b"), ("secret@h", "h"), (String(repeating: "a", count: 300), String(repeating: "a", count: 200)),
  ])
  func aMessageTellsNoSecretOfAnAddress(location: String, told: String) {
    let (kind, advice) = HTTPFailure.meaning(
      of: 302, retryAfter: nil, credential: .none, method: "GET", location: location)
    #expect(kind == .refused)
    #expect(advice == "the endpoint has moved to \(told); set endpoint to that")
  }

  /// A server that the tier of its own process asks is not asked again soon.
  @Test func aTierThatLeadsBackIsARefusal() {
    let (kind, advice) = HTTPFailure.meaning(of: 508, retryAfter: nil, credential: .none, method: "GET")
    #expect(kind == .refused)
    #expect(advice.contains("leads back"))
  }

  @Test(arguments: [
    ("http://127.0.0.1", true), ("http://localhost:1", true), ("http://[::1]", true), ("http://127.1.2.3", true),
    ("http://127.0.0.1.example", false), ("http://128.0.0.1", false), ("http://localhost.example", false),
  ])
  func thisMachineIsKnown(url: String, isLoopback: Bool) throws {
    let endpoint = try HTTPEndpoint(url)
    #expect(endpoint.isLoopback == isLoopback)
    if isLoopback {
      try endpoint.check(allowsPlainHTTP: false)
    } else {
      #expect(throws: RemoteSettingError.self) { try endpoint.check(allowsPlainHTTP: false) }
      try endpoint.check(allowsPlainHTTP: true)
    }
  }

  @Test(arguments: [
    ("http://h/a-b:c%40d(e)!", "/a-b:c%40d(e)!"), ("http://h/a%2fb", "/a%2fb"), ("http://h/a\"b", "/a%22b"),
    ("http://h/a|b^c", "/a%7Cb%5Ec"), ("http://h//", ""), ("http://h/a//b/", "/a//b"),
  ]) func pathsAreURLs(url: String, path: String) throws { #expect(try HTTPEndpoint(url).path == path) }
}
