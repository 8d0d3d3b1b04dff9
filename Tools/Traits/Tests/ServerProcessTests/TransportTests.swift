import BlobRecord
import BlobStore
import Foundation
import Testing

/// The server's handling of the bytes of a connection.
@Suite(.serialized, .timeLimit(.minutes(5))) struct TransportTests {
  let server: ServerProcess

  init() throws { server = try ServerProcess() }

  private func put(_ key: String, _ text: String) throws {
    let connection = try server.connect()
    try connection.send(
      "PUT /v1/blobs/\(key) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)")
    #expect(try connection.answer().status == 201)
  }

  @Test func requestsFollowEachOther() throws {
    try put("a", "one")
    try put("b", "two")
    let connection = try server.connect()
    let request = "GET /v1/blobs/KEY HTTP/1.1\r\nHost: localhost\r\n\r\n"
    // One write sends all requests in one piece.
    try connection.send(["a", "none", "b"].map { request.replacing("KEY", with: $0) }.joined())
    #expect(try connection.answer().text == "one")
    #expect(try connection.answer().status == 404)
    #expect(try connection.answer().text == "two")
    try connection.send("HEAD /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    let last = try connection.answer(toHead: true)
    #expect(last.fields["content-length"] == "3")
    #expect(last.fields["connection"] == "close")
    #expect(connection.hasEnded)
  }

  /// Requests with bodies of many sizes follow each other without a pause, and each of them is decoded exactly once.
  @Test(arguments: [false, true]) func requestsOfAnySizeFollowEachOther(endsSending: Bool) throws {
    let connection = try server.connect()
    let sizes = [0, 1, 100, 2000, 2047, 2048, 2049, 5000, 70_000, 300_000, 3]
    for (number, size) in sizes.enumerated() {
      let body = String(repeating: "\(number % 10)", count: size)
      let put = "PUT /v1/blobs/\(number) HTTP/1.1\r\nHost: localhost\r\n"
      try connection.send(
        number.isMultiple(of: 3) && size > 0
          ? put + "Transfer-Encoding: chunked\r\n\r\n\(String(size, radix: 16))\r\n\(body)\r\n0\r\n\r\n"
          : put + "Content-Length: \(size)\r\n\r\n\(body)")
    }
    for number in sizes.indices {
      try connection.send("GET /v1/blobs/\(number) HTTP/1.1\r\nHost: localhost\r\n\r\n")
    }
    // The bytes before the end of the sending direction are answered too.
    if endsSending { connection.endSending() }
    for _ in sizes { #expect(try connection.answer().status == 201) }
    for (number, size) in sizes.enumerated() {
      #expect(try connection.answer().text == String(repeating: "\(number % 10)", count: size))
    }
    if endsSending { #expect(connection.hasEnded) }
  }

  #if os(Linux)
    /// Bytes behind a request are decoded as the responses are read. Otherwise, 195 KB take 10 MiB of memory.
    @Test func requestsAreNotDecodedAhead() throws {
      let request = "GET /ui/viewer.css HTTP/1.1\r\nHost: localhost\r\n\r\n"
      let other = try server.connect()
      func askOften() throws {
        for _ in 0..<20 {
          try other.send(request)
          #expect(try other.answer().status == 200)
        }
      }
      try askOften()
      let before = try server.residentBytes()
      let connections = try (0..<20).map { _ in try server.connect(receiveBuffer: 4096) }
      for connection in connections { try connection.sendWithoutWaiting(String(repeating: request, count: 4000)) }
      // The server reads in the meantime. If it reads more slowly, the test finds nothing, but does not fail.
      var growth = 0
      for _ in 0..<30 {
        try askOften()
        usleep(100_000)
        growth = max(growth, try server.residentBytes() - before)
      }
      #expect(growth < connections.count << 21, "\(growth >> 10) KiB for \(connections.count) connections")
    }
  #endif

  @Test func aBodyComesInChunks() throws {
    let connection = try server.connect()
    try connection.send("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
    for chunk in ["4\r\nWiki\r\n", "5\r\npedia\r\n", "0\r\n\r\n"] { try connection.send(chunk) }
    #expect(try connection.answer().status == 201)
    #expect(try server.store().load("a")?.payload == Data("Wikipedia".utf8))
  }

  @Test func theOldProtocolIsAnsweredInItsOwnWay() throws {
    try put("a", "one")
    let connection = try server.connect()
    try connection.send("GET /v1/blobs/a HTTP/1.0\r\n\r\n")
    #expect(try connection.answer().text == "one")
    #expect(connection.hasEnded)
    let kept = try server.connect()
    for _ in 0..<2 {
      try kept.send("GET /v1/blobs/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
      let answer = try kept.answer()
      #expect(answer.text == "one")
      #expect(answer.fields["connection"] == "keep-alive")
    }
  }

  @Test func aBodyThatIsHeldBackIsAskedFor() throws {
    let connection = try server.connect()
    try connection.send(
      "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    #expect(try connection.answer().status == 100)
    try connection.send("one")
    #expect(try connection.answer().status == 201)
  }

  /// A client of the old protocol would take the informational response for the final one.
  @Test func theOldProtocolHasNoExpectations() throws {
    for expectation in ["100-continue", "more"] {
      let connection = try server.connect()
      try connection.send("PUT /v1/blobs/a HTTP/1.0\r\nContent-Length: 3\r\nExpect: \(expectation)\r\n\r\none")
      #expect([201, 204].contains(try connection.answer().status))
    }
  }

  /// Otherwise the encoded bytes would be stored.
  @Test(arguments: [
    ("1.1", "gzip, chunked", 501), ("1.1", "chunked, chunked", 501), ("1.1", "identity, chunked", 501),
    ("1.0", "chunked", 400),
  ])
  func anotherTransferCodingIsRefused(version: String, coding: String, status: Int) throws {
    let connection = try server.connect()
    try connection.send(
      "PUT /v1/blobs/a HTTP/\(version)\r\nHost: localhost\r\nTransfer-Encoding: \(coding)\r\n\r\n"
        + "4\r\nWiki\r\n0\r\n\r\n")
    let answer = try connection.answer()
    // The decoder may also refuse the request.
    #expect([400, status].contains(answer.status), "\(answer.status)")
    #expect(answer.fields["connection"] == "close")
    #expect(connection.hasEnded)
    #expect(try server.store().load("a") == nil)
  }

  /// A client must not be asked to send a refused body.
  @Test(arguments: [("Content-Length: 99999999999", 413), ("Content-Length: 3\r\nContent-Encoding: gzip", 415)])
  func aBodyThatIsNotWantedIsNotAskedFor(fields: String, status: Int) throws {
    let connection = try server.connect()
    try connection.send("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\n\(fields)\r\nExpect: 100-continue\r\n\r\n")
    let answer = try connection.answer()
    #expect(answer.status == status)
    #expect(answer.fields["connection"] == "close")
    #expect(connection.hasEnded)
  }

  @Test func aRefusalIsReadThoughTheBodyIsSent() throws {
    let connection = try server.connect()
    try connection.send(
      "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 500000\r\nContent-Encoding: gzip\r\n\r\n")
    try connection.send(Data(count: 500_000))
    #expect(try connection.answer().status == 415)
    #expect(connection.hasEnded)
  }

  @Test(arguments: [
    "GARBAGE\r\n\r\n", "GET\r\n\r\n", "GET /v1/blobs/a\r\n\r\n", "GET /v1/blobs/a HTTP/9.9\r\nHost: a\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost : localhost\r\n\r\n", "GET /healthz HTTP/1.1\r\nHo st: localhost\r\n\r\n",
    "GET /healthz HTTP/1.1\r\n: x\r\nHost: localhost\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: b\u{0}c\r\n\r\n",
    "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
    "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
    "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip\r\n\r\nabc",
    "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n",
    "PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}",
  ])
  func whatIsNoRequestIsRefusedAndEndsTheConnection(text: String) throws {
    let connection = try server.connect()
    try connection.send(text)
    let answer = try connection.answer()
    #expect([400, 501, 505].contains(answer.status), "\(answer.status)")
    #expect(answer.fields["connection"] == "close")
    #expect(connection.hasEnded)
    #expect(try server.store().load("a") == nil)
    // The server still works.
    try put("b", "two")
  }

  @Test(arguments: [
    ("GET /healthz HTTP/1.1\r\n\r\n", 400), ("GET /healthz HTTP/1.1\r\nHost: example.com\r\n\r\n", 421),
    ("GET http://localhost/healthz HTTP/1.1\r\nHost: example.com\r\n\r\n", 200),
    ("GET http://example.com/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 421),
    ("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 411),
    ("BREW /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 501),
    ("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
    ("OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", 204),
    ("GET /healthz HTTP/1.1\r\nHost: localhost\r\nExpect: more\r\n\r\n", 417),
    ("PATCH /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    ("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9223372036854775808\r\n\r\n", 413),
    ("PUT /v1/blobs/a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551615\r\n\r\n", 413),
  ])
  func whatIsNotGrantedIsRefused(text: String, status: Int) throws {
    let connection = try server.connect()
    try connection.send(text)
    #expect(try connection.answer().status == status)
  }

  /// The target has a limit of its own, so that each key can be sent, and a longer one is told so.
  @Test(arguments: [(17_000, 201), (65_536, 201), (65_537, 414), (80_000, 414)])
  func aKeyMayBeLong(byteCount: Int, status: Int) throws {
    let connection = try server.connect()
    let key = String(repeating: "k", count: byteCount)
    try connection.send("PUT /v1/blobs/\(key) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx")
    #expect(try connection.answer().status == status)
  }

  @Test(arguments: ["one field", "fields", "many fields", "target"]) func aHeadThatIsTooLargeIsRefused(
    kind: String
  ) throws {
    let connection = try server.connect()
    let long = String(repeating: "x", count: 20_000)
    let text =
      switch kind {
      case "one field": "GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: \(long)\r\n\r\n"
      case "fields":
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nA: \(long.prefix(9000))\r\nB: \(long.prefix(9000))\r\n\r\n"
      case "target": "GET /v1/blobs/\(long)\(long)\(long)\(long)\(long) HTTP/1.1\r\nHost: localhost\r\n\r\n"
      default:
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
          + (0..<200).map { "A\($0): b\r\n" }.joined() + "\r\n"
      }
    try connection.send(text)
    let answer = try connection.answer()
    #expect([400, 431].contains(answer.status), "\(answer.status)")
    #expect(connection.hasEnded)
  }
}
