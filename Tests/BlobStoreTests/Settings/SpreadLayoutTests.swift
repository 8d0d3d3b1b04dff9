import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, N5: records that are distributed over subdirectories by the digests of their names.
@Suite struct SpreadLayoutTests {
  private let cache: Cache

  init() throws { cache = try Cache() }

  private func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try cache.store(files: files) {
      $0.layout.arrangement = .spread
      change(&$0)
    }
  }

  private static let urls = (0..<300).map { BlobKey("https://example.com/images/\($0).jpg") }

  private func keys(_ prefix: String) throws -> [String] {
    try store().records(prefix: prefix).compactMap { $0.key?.string }.sorted()
  }

  /// The FNV-1a hash of `foobar` is 0x85944171f73967e8; its low ten bits are 1000.
  @Test func theDigestNamesTheSubdirectory() throws {
    try store().store(payload(5), for: "foobar")
    #expect(try cache.files() == ["v8/foobar"])
    #expect(try store().load("foobar")?.payload == payload(5))
    #expect(try cache.store().load("foobar") == nil)
  }

  /// Names of any length, including those shorter than two characters.
  @Test func keysWithACommonStartLieInManySubdirectories() throws {
    let store = try store()
    for key in Self.urls + ["a", "é"] { try store.store(payload(1), for: key) }
    let subdirectories = Set(try cache.files().map { FilePath($0).removingLastComponent().string })
    #expect(subdirectories.count > 200)
    #expect(subdirectories.allSatisfy { $0.wholeMatch(of: /[0-9a-v]{2}/) != nil })
    #expect(try keys("").count == 302)
    for key in Self.urls { #expect(try store.load(key)?.payload == payload(1)) }
  }

  @Test(arguments: ["", "h", "ht", "https://example.com/images/29", "https://example.com/images/299.jpg", "x"])
  func aPrefixIsFoundWhereverItsKeysLie(prefix: String) throws {
    let store = try store()
    for key in Self.urls { try store.store(payload(1), for: key) }
    #expect(try keys(prefix) == Self.urls.map(\.string).filter { $0.hasPrefix(prefix) }.sorted())
  }

  @Test func removalsByPrefixLeaveTheOthers() throws {
    let store = try store()
    for key in Self.urls { try store.store(payload(1), for: key) }
    #expect(try store.remove(prefix: "https://example.com/images/1").files == 111)
    #expect(try keys("").count == 189)
  }

  /// C1, C5, C15: after one new record, a pass examines only the records of its subdirectory.
  @Test func aCollectionLooksAtTheSubdirectoriesThatHaveChanged() throws {
    let trace = CallTrace()
    let store = try store(files: trace.files)
    for key in Self.urls { try store.store(payload(1), for: key, ttl: .seconds(100)) }
    usleep(150_000)
    #expect(try store.collect().examined == 300)
    try store.store(payload(1), for: "foobar", ttl: .seconds(1))
    cache.clock.advance(by: 2)
    _ = trace.take()
    let report = try store.collect()
    #expect(report.examined == 301 && report.expired == 1)
    let opened = trace.take().filter { $0.call == .open }.map { FilePath($0.path) }
    let subdirectories = opened.filter { $0.lastComponent?.string.hasPrefix("https") == true }.map {
      $0.removingLastComponent().lastComponent?.string
    }
    #expect(subdirectories.allSatisfy { $0 == "v8" })
    cache.clock.advance(by: 100)
    #expect(try store.collect().expired == 300)
    #expect(try cache.files() == [])
  }

  /// A mark of one arrangement does not apply to the records of another.
  @Test func marksAreOfOneArrangement() throws {
    try store().store(payload(1), for: "foobar", ttl: .seconds(100))
    usleep(150_000)
    #expect(try store().collect().examined == 1)
    #expect(try cache.store().collect().examined == 0)
    #expect(try store().collect().examined == 1)
  }

  /// F1: records are foreign at the root, in another subdirectory, and in one with a different spelling.
  @Test(arguments: ["foobar", "fo/foobar", "v9/foobar", "V8/foobar", "v8/v8/foobar"])
  func aRecordInAnotherPlaceIsForeign(place: String) throws {
    let store = try store()
    try store.store(payload(5), for: "foobar")
    let bytes = try cache.bytes("v8/foobar")
    try store.remove("foobar")
    try cache.write(bytes, to: place)
    #expect(try keys("") == [])
    #expect(try store.load("foobar") == nil)
    #expect(try store.usage().foreignFiles == 1)
    cache.clock.advance(by: 1_000_000)
    #expect(try store.collect().expired == 0)
    #expect(try cache.bytes(place) == bytes)
  }

  /// P16: the settings contain the arrangement, and stores with a different one fail.
  @Test func theDirectorySaysHowItIsArranged() throws {
    try cache.makeDirectory("")
    try BlobStore.changeSettings(of: cache.root) { $0.arrangement = .spread }
    #expect(String(decoding: try cache.bytes(".blobcache.conf"), as: UTF8.self).contains("\nlayout spread\n"))
    let configuration = try BlobStore.Configuration(following: cache.root)
    #expect(configuration.layout == .init(arrangement: .spread))
    expect(.layoutMismatch) { try cache.store().store(payload(1), for: "foobar") }
    try store().store(payload(1), for: "foobar")
    #expect(try cache.exists("v8/foobar"))
  }

  /// P17: without settings, the hint determines the arrangement.
  @Test(arguments: RecordArrangement.allCases) func theHintTellsTheArrangement(arrangement: RecordArrangement) throws {
    try cache.store { $0.layout.arrangement = arrangement }.store(payload(1), for: "foobar")
    #expect(try BlobStore.hint(at: cache.root)?.layout == RecordLayout(arrangement: arrangement))
    #expect(try BlobStore.Configuration(following: cache.root).layout.arrangement == arrangement)
  }

  /// P18a: a change of the arrangement that would hide existing records is refused.
  @Test(arguments: RecordArrangement.allCases, RecordArrangement.allCases)
  func recordsKeepTheirArrangement(before: RecordArrangement, after: RecordArrangement) throws {
    try cache.store { $0.layout.arrangement = before }.store(payload(1), for: "foobar")
    // Records by `spread` are also found with `adaptive`.
    if before == after || (before, after) == (.spread, .adaptive) {
      try BlobStore.changeSettings(of: cache.root) { $0.arrangement = after }
    } else {
      expect(.invalidConfiguration) { try BlobStore.changeSettings(of: cache.root) { $0.arrangement = after } }
    }
  }

  /// Spec/Performance.md: the arrangement requires no additional calls.
  @Test func theCallsAreThoseOfThePrefix() throws {
    func calls(_ arrangement: RecordArrangement) throws -> [[SystemCall]] {
      let trace = CallTrace()
      let cache = try Cache()
      let store = try cache.store(files: trace.files) { $0.layout.arrangement = arrangement }
      try store.store(payload(5), for: "key")
      let steps: [() throws -> Void] = [
        { try store.store(payload(5), for: "key") }, { _ = try store.load("key") }, { try store.lock("key") },
        { try store.remove("key") },
      ]
      return try steps.map { step in
        _ = trace.take()
        try step()
        return trace.take().map(\.call)
      }
    }
    #expect(try calls(.spread) == calls(.prefix))
  }
}
