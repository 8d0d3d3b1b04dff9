import BlobCache
import BlobCacheServer
import Foundation
import TestSupport
import Testing

#if canImport(FoundationXML)
  import FoundationXML
#endif

/// The requests of sccache before it stores, and further rules of RFC 4918.
@Suite struct WebDAVTests {
  let server: TestServer

  init() throws { server = try TestServer() }

  private static let query = "<?xml version=\"1.0\"?><D:propfind xmlns:D=\"DAV:\"><D:allprop/></D:propfind>"

  private func properties(of path: String) async throws -> Answer {
    try await server.send("PROPFIND", path, ["Depth": "0"], .bytes(Data(Self.query.utf8)))
  }

  @Test(arguments: ["/sccache/", "/sccache", "/sccache/project/", "/sccache/a/b/c/"])
  func thereIsACollectionWhereverAClientLooks(path: String) async throws {
    let answer = try await properties(of: path)
    #expect(answer.status == 207)
    #expect(answer["Content-Type"] == "application/xml; charset=utf-8")
    let response = try Multistatus(answer.payload)
    #expect(response.texts["D:href"] == path)
    #expect(response.texts["D:collection"] != nil)
    #expect(response.texts["D:status"] == "HTTP/1.1 200 OK")
    #expect(try await server.send("MKCOL", path).status == 201)
    #expect(try await server.cache.usage().records == 0)
  }

  @Test func aBlobHasProperties() async throws {
    let path = "/sccache/a/b"
    #expect(try await properties(of: path).status == 404)
    _ = try await server.send("PUT", path, [:], .bytes(Data("product".utf8)))
    let response = try Multistatus(try await properties(of: path).payload)
    #expect(response.texts["D:href"] == path)
    #expect(response.texts["D:collection"] == nil)
    #expect(response.texts["D:getcontentlength"] == "7")
    #expect(response.texts["D:getlastmodified"] == "Tue, 14 Nov 2023 22:13:20 GMT")
    #expect(try await response.texts["D:getetag"] == server.send("GET", path)["ETag"])
  }

  @Test(arguments: [nil, "1", "infinity", "x"]) func whatLiesBelowIsNotListed(depth: String?) async throws {
    _ = try await server.send("PUT", "/sccache/a/b", [:], .bytes(Data("product".utf8)))
    var fields = HeaderFields()
    if let depth { fields.append("Depth", depth) }
    for path in ["/sccache/a/", "/sccache/a/b"] {
      #expect(try await server.send("PROPFIND", path, fields).status == 403)
    }
  }

  @Test func bodiesAreBounded() async throws {
    let large = Pieces(pieces: [Data(count: 60_000), Data(count: 60_000)])
    for body in [large.body, large.body(told: 120_000)] {
      #expect(try await server.send("PROPFIND", "/sccache/a/", ["Depth": "0"], body).status == 413)
    }
    for body in [large.body, .bytes(Data("x".utf8))] {
      #expect(try await server.send("MKCOL", "/sccache/a/", [:], body).status == 415)
    }
  }

  @Test func optionsSayWhatIsSpoken() async throws {
    for path in ["/sccache/a", "/sccache/a/"] { #expect(try await server.send("OPTIONS", path)["DAV"] == "1") }
    #expect(try await server.send("OPTIONS", "/ccache/a")["DAV"] == nil)
  }

  @Test func aServerForReadingTellsProperties() async throws {
    var answering = BlobResponder.Configuration()
    answering.isReadOnly = true
    let server = try TestServer(answering)
    #expect(try await server.send("PROPFIND", "/sccache/", ["Depth": "0"]).status == 207)
    #expect(try await server.send("MKCOL", "/sccache/a/").status == 403)
  }
}

/// The text within each element, by the element's name.
private final class Multistatus: NSObject, XMLParserDelegate {
  private(set) var texts: [String: String] = [:]
  private var open: [String] = []

  init(_ data: Data) throws {
    super.init()
    let parser = XMLParser(data: data)
    parser.delegate = self
    guard parser.parse() else { throw parser.parserError ?? CocoaError(.propertyListReadCorrupt) }
  }

  func parser(
    _ parser: XMLParser, didStartElement name: String, namespaceURI: String?, qualifiedName: String?,
    attributes: [String: String] = [:]
  ) {
    open.append(name)
    texts[name] = texts[name] ?? ""
  }

  func parser(_ parser: XMLParser, foundCharacters text: String) { if let name = open.last { texts[name]? += text } }

  func parser(_ parser: XMLParser, didEndElement name: String, namespaceURI: String?, qualifiedName: String?) {
    open.removeLast()
  }
}
