import BlobCache
import BlobCacheServer
import BlobRecord
import Foundation
import TestSupport
import Testing

/// The table of records: its pages, positions and orders.
@Suite struct ViewerTableTests {
  private func keys(_ page: Page) -> [String] {
    page.links(to: "record?key=").compactMap { $0.dropFirst("record?key=".count).removingPercentEncoding }
  }

  @Test func pagesHaveEachRecordOnce() async throws {
    let server = try TestServer()
    let stored = (0..<450).map { "\($0 % 9 == 0 ? "odd/" : "")key \($0)" }
    for key in stored { try await server.cache.store(Data(), for: BlobKey(key)) }
    for (query, wanted) in [("", stored), ("?prefix=odd%2F", stored.filter { $0.hasPrefix("odd/") })] {
      var (met, count): ([String], Int) = ([], 0)
      var address: String? = "records" + query
      while let current = address {
        let page = try await server.page(current)
        #expect(page.status == 200)
        met += keys(page)
        count += 1
        address = page.next
      }
      #expect(met.sorted() == wanted.sorted())
      #expect(count <= 6)
    }
  }

  /// A page reads at most about 4096 records.
  @Test func aStateThatFewRecordsHaveIsLookedForPageByPage() async throws {
    let server = try TestServer { $0.store.layout.arrangement = .flat }
    for number in 0..<4500 { try await server.cache.store(Data(), for: BlobKey("\(number)")) }
    let first = try await server.page("records?state=locked")
    #expect(keys(first) == [])
    #expect(first.text.contains("there are more"))
    let second = try await server.page(try #require(first.next))
    #expect(second.next == nil)
    #expect(second.text.contains("No record is like this"))
  }

  @Test func aPlaceIsAShareOfTheRecords() async throws {
    let server = try TestServer()
    for number in 0..<1200 { try await server.cache.store(Data(), for: BlobKey("\(number)")) }
    _ = try await server.cache.collect()
    let first = try await server.page("records")
    #expect(first.links(to: "records?at=").count == 10)
    var (rest, address): (Int, String?) = (0, "records?at=50")
    while let current = address {
      let page = try await server.page(current)
      rest += keys(page).count
      address = page.next
    }
    // Digests are deterministic, so the same keys always follow the position in the middle.
    #expect((400..<800).contains(rest))
  }

  @Test(arguments: [
    ("size", ["c", "b", "a"]), ("-size", ["a", "b", "c"]), ("age", ["a", "b", "c"]), ("-age", ["c", "b", "a"]),
    ("expiry", ["c", "b", "a"]),
  ])
  func anOrderIsThatOfAllRecords(order: String, wanted: [String]) async throws {
    let server = try TestServer()
    for (index, key) in ["a", "b", "c"].enumerated() {
      let ttl = "\(1000 - index * 200)"
      _ = try await server.put(key, String(repeating: "x", count: index * 100), ["X-BlobCache-TTL": ttl])
      server.clock.advance(by: 10)
    }
    #expect(keys(try await whole(server, "records?sort=\(order)")) == wanted)
  }

  @Test func usesAreShownAndOrdered() async throws {
    let server = try TestServer { configuration in
      configuration.store.limits.size = 1 << 30
      configuration.memory = nil
    }
    for key in ["a", "b", "c"] { _ = try await server.put(key, "x") }
    for _ in 0..<5 { _ = try await server.cache.load("b") }
    #expect(keys(try await whole(server, "records?sort=uses")).first == "b")
    #expect(try await server.page("records").text.contains("<td class=\"number\">5</td>"))
  }

  /// Returns the page after its walk has ended.
  private func whole(_ server: TestServer, _ address: String) async throws -> Page {
    while true {
      let page = try await server.page(address)
      if !page.text.contains("<progress") { return page }
      try await Task.sleep(for: .milliseconds(10))
    }
  }

  @Test func aWalkIsMadeAnewWhenThatIsAskedFor() async throws {
    let server = try TestServer()
    _ = try await server.put("a", "x")
    #expect(keys(try await whole(server, "records?sort=size")) == ["a"])
    _ = try await server.put("b", "xx")
    _ = try await server.page("records?sort=size&anew=1")
    #expect(keys(try await whole(server, "records?sort=size")) == ["b", "a"])
  }

  @Test(arguments: [
    ("live", ["a", "locked"]), ("locked", ["locked"]), ("expired", ["old"]), ("all", ["a", "locked", "old"]),
  ])
  func statesAreChosen(state: String, wanted: [String]) async throws {
    let server = try TestServer()
    _ = try await server.put("a", "x")
    _ = try await server.put("old", "x", ["X-BlobCache-TTL": "10"])
    _ = try await server.put("locked", "x", ["X-BlobCache-Locks": "one", "X-BlobCache-TTL": "10"])
    server.clock.advance(by: 11)
    let page = try await server.page("records?state=\(state)")
    #expect(keys(page).sorted() == wanted)
    #expect(page.text.contains("Locked at least since") == (state == "locked"))
  }

  @Test func theOverviewCountsWhatIsThere() async throws {
    let server = try TestServer { $0.store.limits.size = 1_000_000 }
    for number in 0..<30 { _ = try await server.put("\(number)", String(repeating: "x", count: 5000)) }
    _ = try await server.cache.lock("3")
    _ = try await server.get("3")
    _ = try await server.get("none")
    _ = try await server.cache.collect()
    let page = try await whole(server, "")
    #expect(page.text.contains("<p class=\"value\">30</p>"))
    #expect(page.text.contains("<meter"))
    #expect(page.text.contains("Records by the size of their payload"))
    #expect(page.text.contains("&lt;16K: 30 records"))
    #expect(page.links(to: "records?state=locked").isEmpty == false)
  }
}
