import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// `Last-Modified`, and the conditions that use it (RFC 9110, 13.1.3 and 13.1.4).
@Suite struct DateConditionTests {
  private let server: TestServer

  init() throws { server = try TestServer() }

  private func date(_ offset: Int64) -> String { HTTPDate.text(UnixTime(seconds: server.clock.now.seconds + offset)) }

  @Test func theDateIsThatOfTheStore() async throws {
    _ = try await server.put("a", "x", ["X-BlobCache-TTL": "1h"])
    let date = date(0)
    server.clock.advance(by: 60)
    #expect(try await server.get("a")["Last-Modified"] == date)
    // Accesses update the time of a blob without a time to live.
    _ = try await server.put("b", "x")
    #expect(try await server.get("b")["Last-Modified"] == nil)
  }

  @Test(arguments: [(-1, 200, 412), (0, 304, 200), (1, 304, 200)] as [(Int64, Int, Int)])
  func aDateIsAsked(offset: Int64, since: Int, unless: Int) async throws {
    _ = try await server.put("a", "x", ["X-BlobCache-TTL": "1h"])
    let date = date(offset)
    for method in ["GET", "HEAD"] {
      #expect(try await server.send(method, "/v1/blobs/a", ["If-Modified-Since": date]).status == since)
      #expect(try await server.send(method, "/v1/blobs/a", ["If-Unmodified-Since": date]).status == unless)
    }
    // For changes, only `If-Unmodified-Since` is a condition.
    let put = try await server.put("a", "y", ["If-Unmodified-Since": date, "X-BlobCache-TTL": "1h"])
    #expect(put.status == (unless == 200 ? 204 : 412))
    let removed = try await server.send("DELETE", "/v1/blobs/a", ["If-Unmodified-Since": date])
    #expect(removed.status == (unless == 200 ? 204 : 412))
    #expect(try await server.put("b", "x", ["If-Modified-Since": date]).status == 201)
  }

  /// RFC 9110, 5.6.7: a recipient accepts the obsolete forms of a date, too.
  @Test(arguments: ["Tue, 14 Nov 2000 22:13:20 GMT", "Tuesday, 14-Nov-00 22:13:20 GMT", "Tue Nov 14 22:13:20 2000"])
  func eachFormOfADateIsAsked(date: String) async throws {
    _ = try await server.put("a", "x", ["X-BlobCache-TTL": "1h"])
    #expect(try await server.get("a", ["If-Unmodified-Since": date]).status == 412)
    #expect(try await server.put("a", "y", ["If-Unmodified-Since": date]).status == 412)
    #expect(try await server.send("DELETE", "/v1/blobs/a", ["If-Unmodified-Since": date]).status == 412)
    #expect(try await server.get("a", ["If-Modified-Since": date]).status == 200)
  }

  /// A record whose writer's clock was ahead is not sent with a date of the future.
  @Test func noDateIsAfterTheAnswer() async throws {
    server.clock.advance(by: 3600)
    _ = try await server.put("sccache/a", "x", ["X-BlobCache-TTL": "1h"])
    server.clock.advance(by: -3600)
    let now = date(0)
    #expect(try await server.get("sccache/a")["Last-Modified"] == now)
    let properties = try await server.send("PROPFIND", "/sccache/a", ["Depth": "0"]).text
    #expect(properties.contains("<D:getlastmodified>\(now)<"))
    // A condition still compares the record's own time, so no change of it is lost.
    #expect(try await server.put("sccache/a", "y", ["If-Unmodified-Since": now]).status == 412)
  }

  /// Entity tags have precedence, and invalid dates are ignored.
  @Test func tagsComeBeforeDates() async throws {
    let tag = try #require(try await server.put("a", "x", ["X-BlobCache-TTL": "1h"])["ETag"])
    #expect(try await server.get("a", ["If-Modified-Since": date(0), "If-None-Match": "\"other\""]).status == 200)
    #expect(try await server.get("a", ["If-Unmodified-Since": date(-1), "If-Match": tag]).status == 200)
    for text in ["yesterday", "", "Sun, 06 Nov 1994 08:49:37 CET"] {
      #expect(try await server.get("a", ["If-Modified-Since": text]).status == 200)
      #expect(try await server.get("a", ["If-Unmodified-Since": text]).status == 200)
    }
    _ = try await server.put("b", "x")
    #expect(try await server.get("b", ["If-Modified-Since": date(9)]).status == 200)
    #expect(try await server.get("b", ["If-Unmodified-Since": date(-9)]).status == 200)
  }
}
