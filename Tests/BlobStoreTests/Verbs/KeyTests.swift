import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, N: operations of a store with all kinds of keys.
@Suite struct KeyTests {
  static let layouts = RecordNaming.allCases.flatMap { naming in
    RecordArrangement.allCases.map { RecordLayout(naming: naming, arrangement: $0) }
  }

  /// Keys that every naming except `verbatim` accepts, and whether `verbatim` accepts them.
  static let keys: [(key: String, isVerbatim: Bool)] = [
    ("key", true), ("a", true), ("ab", true), ("é", true), ("e\u{301}", true), ("😀", true), ("a😀b", true),
    ("with space", true), ("%", true), ("%2F", true), ("%41", true), ("100%", true), ("\u{7F}", true),
    ("a\u{1}b", true),
    ("\n", true), ("\r\n", true), ("~", true), ("-rf", true), ("..a", false), (".", false), ("..", false),
    (".hidden", false), (".tmp-1", false), (".quarantine", false), (".blobcache", false), ("/", false),
    ("../../etc/passwd", false), ("/etc/passwd", false), ("a/b", false), ("a/../../b", false), ("a\u{0}b", false),
    ("\u{0}", false),
  ]

  let cache: Cache

  init() throws { cache = try Cache() }

  /// N1, N2, N3, N6: each key has its own record, and no file is created outside the root.
  @Test(arguments: layouts) func everyKeyIsARecordOfItsOwn(layout: RecordLayout) throws {
    let store = try cache.store { $0.layout = .init(layout) }
    let fitting = Self.keys.filter { layout.naming != .verbatim || $0.isVerbatim }.map { BlobKey($0.key) }
    for (index, key) in fitting.enumerated() {
      #expect(try store.load(key) == nil)
      try store.store(payload(index), for: key)
    }
    for (index, key) in fitting.enumerated() { #expect(try store.load(key)?.payload == payload(index), "\(key)") }
    #expect(try store.verify().soundRecords == Int64(fitting.count))
    #expect(try store.verify().foreignFiles == 0)
    #expect(try cache.outside.names() == ["cache"])
    if layout.naming != .sha256 { #expect(Set(try store.records().compactMap(\.key)) == Set(fitting)) }
    for key in fitting {
      #expect(try store.lock(key) == .done)
      #expect(try store.unlock(key) == .done)
      #expect(try store.remove(key) == .done)
    }
    #expect(try cache.files() == [])
  }

  /// N3, N4.
  @Test func verbatimRefusesWhatNoFileNameCanCarry() throws {
    let store = try cache.store { $0.layout.naming = .verbatim }
    for (key, isVerbatim) in Self.keys where !isVerbatim { expectInvalid(BlobKey(key), store) }
    #expect(try cache.outside.names() == [])
    expect(.invalidKey) { _ = try store.records(prefix: ".") }
    expect(.invalidKey) { _ = try store.load(prefix: "a/") { $0.first } }
  }

  /// N4.
  @Test(arguments: layouts) func emptyKeyIsRefused(layout: RecordLayout) throws {
    expectInvalid("", try cache.store { $0.layout = .init(layout) })
    #expect(try cache.outside.names() == [])
  }

  /// N4, N7: the limit applies to bytes of the file name, not to characters of the key.
  @Test(arguments: layouts) func longestNameIs255Bytes(layout: RecordLayout) throws {
    let store = try cache.store { $0.layout = .init(layout) }
    for longest in [String(repeating: "a", count: 255), String(repeating: "é", count: 127) + "a"] {
      try store.store(payload(5), for: BlobKey(longest))
      #expect(try store.load(BlobKey(longest))?.payload == payload(5))
      let tooLong = BlobKey(longest + "b")
      if layout.naming != .verbatim {
        try store.store(payload(6), for: tooLong)
        #expect(try store.load(tooLong)?.payload == payload(6))
      } else {
        expectInvalid(tooLong, store)
      }
    }
    if layout.naming == .encoded {
      let escaped = BlobKey(String(repeating: "/", count: 85))
      try store.store(payload(5), for: escaped)
      #expect(try store.load(escaped)?.payload == payload(5))
      expectInvalid(BlobKey(String(repeating: "/", count: 65_537)), store)
      expectInvalid(
        BlobKey(String(repeating: "/", count: 86)),
        try cache.store { ($0.layout, $0.format) = (.init(layout), .reference) })
    }
    #expect(try store.verify().foreignFiles == 0)
  }

  /// N5.
  @Test(
    arguments: [
      ("a", "a"), ("ab", "ab/ab"), ("abc", "ab/abc"), ("é", "é"), ("éa", "éa/éa"), ("😀", "😀/😀"),
      ("a😀", "a😀/a😀"), ("a😀b", "a😀/a😀b"), ("/x", "%2/%2Fx"), (".x", "%2/%2Ex"), ("%", "%2/%25"),
    ])
  func recordsLieWhereTheirNamesPlaceThem(key: String, file: String) throws {
    try cache.store().store(payload(5), for: BlobKey(key))
    #expect(try cache.files().map { Array($0.utf8) } == [Array(file.utf8)])
    let other = try Cache()
    try other.store { $0.layout.separatesDirectories = false }.store(payload(5), for: BlobKey(key))
    let flat = file.split(separator: "/").last.map(String.init) ?? ""
    #expect(try other.files().map { Array($0.utf8) } == [Array(flat.utf8)])
  }

  /// A store with several mistakes reports the same one in every way of storing, also before the directory was
  /// opened, when it is not yet known whether the payload belongs into a pack.
  @Test(arguments: [BlobStore.Packing?.none, .off, .upTo(8192)], [false, true])
  func aTooLargePayloadIsRefusedBeforeItsKey(packing: BlobStore.Packing?, isOpen: Bool) throws {
    let store = try cache.store {
      $0.limits.payload = 1000
      if let packing { $0.packing = packing }
    }
    if isOpen { try store.store(payload(1), for: "other") }
    let large = Data(count: 1001)
    expect(.payloadTooLarge) { try store.store(large, for: "") }
    expect(.payloadTooLarge) { _ = try store.store([(BlobKey(""), large)]).first?.result.get() }
    expect(.payloadTooLarge) { _ = try store.openWriter(for: "", expectedSize: 1001) }
    let file = cache.outside.path.appending("large")
    try large.write(to: URL(fileURLWithPath: file.string))
    for visibility in [BlobStore.Visibility.afterCommit, .whileWriting] {
      expect(.payloadTooLarge) { try store.store(contentsOf: file, for: "", visibility: visibility) }
    }
  }

  /// Expects that every operation with a key refuses it.
  private func expectInvalid(_ key: BlobKey, _ store: BlobStore) {
    expect(.invalidKey) { try store.store(payload(5), for: key) }
    expect(.invalidKey) { _ = try store.load(key) }
    expect(.invalidKey) { _ = try store.header(for: key) }
    expect(.invalidKey) { _ = try store.contains(key) }
    expect(.invalidKey) { try store.touch(key) }
    expect(.invalidKey) { try store.lock(key) }
    expect(.invalidKey) { try store.unlock(key) }
    #expect(expect(.invalidKey) { try store.remove(key) }?.key == key)
  }
}
