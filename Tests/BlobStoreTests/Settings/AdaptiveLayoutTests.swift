import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Spec/Semantics.md, N5g to N5i: few subdirectories for few records, and many for many.
@Suite struct AdaptiveLayoutTests: AdaptiveSuite {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  // MARK: - Size

  @Test(arguments: [1, 100, 1000]) func aSmallCacheHasFewSubdirectories(count: Int) throws {
    let store = try store()
    for key in Self.urls(count) { try store.store(payload(1), for: key) }
    let names = try subdirectories()
    #expect(names.count <= 32)
    #expect(names.filter { $0.wholeMatch(of: /[0-9a-v]/) == nil } == [])
    if count >= 100 { #expect(names.count > 28) }
    for key in Self.urls(count) { #expect(try self.store().load(key)?.payload == payload(1)) }
  }

  /// The records that exist when the directory grows stay where they are, and all stores find both.
  @Test func aLargeCacheHasMany() throws {
    let (store, other) = (try store(), try store())
    let bound = Int(ControlFile.narrowRecordLimit)
    let keys = Self.urls(bound + 600)
    for (index, key) in keys.prefix(bound).enumerated() {
      try (index % 2 == 0 ? store : other).store(payload(1), for: key)
    }
    #expect(try subdirectories().count == 32)
    let before = try cache.files()
    for (index, key) in keys.dropFirst(bound).enumerated() {
      try (index % 2 == 0 ? store : other).store(payload(1), for: key)
    }
    let after = try cache.files()
    #expect(after.isSuperset(of: before))
    // The store that exceeds the bound is still one of the small cache.
    #expect(after.subtracting(before).count(where: { $0.utf8.dropFirst().first == UInt8(ascii: "/") }) == 1)
    #expect(try subdirectories().count > 32 + 300)
    for reader in [store, other, try self.store()] {
      for key in keys { #expect(try reader.load(key)?.payload == payload(1)) }
      #expect(try reader.load("missing") == nil)
    }
    #expect(try Set(store.records().compactMap(\.key)) == Set(keys))
    #expect(try store.verify().soundRecords == Int64(keys.count))
  }

  // MARK: - Records across the change

  /// A record stays in its place until it is removed.
  @Test func aChangedRecordStaysInItsPlace() throws {
    let store = try store()
    try store.store(payload(5), for: "foobar", locks: .one)
    try widen()
    try store.store(payload(1), for: "other")
    #expect(try cache.files() == ["v/foobar", Self.wide("other"), Self.settingsFile])
    try store.store(payload(6), for: "foobar", locks: .keep)
    #expect(try store.touch("foobar") == .done)
    #expect(try store.lock("foobar") == .done)
    #expect(try store.header(for: "foobar")?.refCount == 2)
    #expect(try store.setExtendedData(Data([1, 2]), for: "foobar") == .done)
    #expect(try store.load("foobar")?.extendedData == Data([1, 2]))
    var writer = try store.openWriter(for: "foobar")
    try writer.append(payload(7))
    _ = try writer.commit()
    #expect(try cache.files() == ["v/foobar", Self.wide("other"), Self.settingsFile])
    #expect(try store.load("foobar")?.payload == payload(7))
    #expect(try store.filePath(for: "foobar") == cache.root.appending("v/foobar"))
    #expect(try store.inspectRecord(of: "foobar")?.path == cache.root.appending("v/foobar"))
    #expect(try store.withExclusiveAccess(to: "foobar") { $0 } == cache.root.appending("v/foobar"))
    #expect(try store.remove("foobar") == .done)
    #expect(try store.load("foobar") == nil)
    #expect(try store.remove("foobar") == .notFound)
    try store.store(payload(8), for: "foobar")
    #expect(try cache.files() == ["v8/foobar", Self.wide("other"), Self.settingsFile])
    #expect(try store.load("foobar")?.payload == payload(8))
  }

  @Test(arguments: [true, false], [BlobStore.Visibility.afterCommit, .whileWriting])
  func aStreamAcrossTheChangeLeavesOneRecord(exists: Bool, visibility: BlobStore.Visibility) throws {
    let store = try store()
    try store.store(payload(1), for: "first")
    if exists { try store.store(payload(5), for: "foobar") }
    var writer = try store.openWriter(for: "foobar", visibility: visibility)
    try writer.append(payload(7))
    try widen()
    try store.store(payload(1), for: "other")
    _ = try writer.commit()
    let place = exists || visibility == .whileWriting ? "v/foobar" : "v8/foobar"
    #expect(try cache.files() == [place, Self.narrow("first"), Self.wide("other"), Self.settingsFile])
    #expect(try store.load("foobar")?.payload == payload(7))
    #expect(try self.store().load("foobar")?.payload == payload(7))
  }

  @Test func aConditionIsJudgedByTheRecordInItsPlace() throws {
    let store = try store()
    try store.store(payload(5), for: "foobar")
    try widen()
    try store.store(payload(1), for: "other")
    let isAbsent = StoreCondition(onRecord: { $0 == nil })
    let bytes = payload(6)
    let receipt = try store.storeWithReceipt(bytes.bytes, nil, for: "foobar", ttl: nil, locks: .none, if: isAbsent)
    #expect(receipt == nil)
    #expect(try store.remove("foobar", if: isAbsent) == nil)
    #expect(try store.load("foobar")?.payload == payload(5))
    #expect(try store.remove("foobar", if: StoreCondition(onRecord: { $0 != nil })) == .done)
    #expect(try cache.files() == [Self.wide("other"), Self.settingsFile])
  }

  /// Another program widens the directory before each call of a store, of a new key or of one that has a record.
  @Test(arguments: [true, false]) func aStoreDuringTheChangeLeavesOneRecord(exists: Bool) throws {
    try atEachCall(atLeast: 6) { cache, trace in
      let other = try cache.adaptiveStore()
      try other.store(payload(1), for: "other")
      if exists { try other.store(payload(5), for: "foobar") }
      let store = try cache.adaptiveStore(files: trace.files)
      _ = try store.load("other")
      return Race {
        try cache.widen(by: other)
      } operation: {
        try store.store(payload(6), for: "foobar")
      } check: {
        for reader in [store, other, try cache.adaptiveStore()] {
          #expect(try reader.load("foobar")?.payload == payload(6))
        }
        let places = try cache.files().filter { $0.hasSuffix("foobar") }
        #expect(places == ["v/foobar"] || !exists && places == ["v8/foobar"])
        // A draft leaves no empty subdirectory.
        #expect(try cache.exists("v") != cache.exists("v8"))
      }
    }
  }

  /// A record that others replace and never remove is found by each load.
  @Test func aLoadFindsARecordThatAlwaysExists() throws {
    try atEachCall(atLeast: 2) { cache, trace in
      let other = try cache.adaptiveStore()
      try other.store(payload(5), for: "foobar")
      let store = try cache.adaptiveStore(files: trace.files)
      return Race {
        try cache.widen(by: other)
        try other.store(payload(6), for: "foobar")
      } operation: {
        let blob = try store.load("foobar")
        #expect(blob != nil)
      }
    }
  }

  @Test func pagesAcrossTheChangeHaveEachRecordOnce() throws {
    let store = try store()
    let keys = Self.urls(200)
    for key in keys { try store.store(payload(1), for: key) }
    var (found, position): ([BlobKey], WalkPosition?) = ([], .start)
    while let start = position {
      let page = try store.page(from: start, limit: 20) { _ in true }
      found += page.entries.compactMap(\.key).filter(Set(keys).contains)
      position = page.next
      if found.count < 60 { try widen(by: store) }
      try store.store(payload(2), for: keys[found.count % keys.count])
    }
    #expect(found.count == keys.count && Set(found) == Set(keys))
    #expect(try subdirectories().contains { $0.utf8.count == 2 })
  }

  // MARK: - Collections

  @Test func aCollectionRemovesFromBothPlacesAndEndsTheSearch() throws {
    let store = try store()
    for key in Self.urls(40) { try store.store(payload(1), for: key, ttl: .seconds(100)) }
    try widen()
    for key in Self.urls(80).dropFirst(40) { try store.store(payload(1), for: key, ttl: .seconds(200)) }
    #expect(try places() == .mixed)
    #expect(try store.collect().examined == 80)
    #expect(try places() == .mixed)
    cache.clock.advance(by: 101)
    #expect(try store.collect().expired == 40)
    #expect(try places() == .wide)
    #expect(try subdirectories().allSatisfy { $0.utf8.count == 2 })
    for key in Self.urls(80).dropFirst(40) { #expect(try store.load(key) != nil) }
    cache.clock.advance(by: 200)
    #expect(try store.collect().expired == 40)
    #expect(try subdirectories() == [])
  }

  /// A change that began before the directory grew may still store its record in one of the 32 subdirectories.
  @Test(arguments: ["dry run", "change", "time limit"])
  func anIncompleteCollectionDoesNotEndTheSearch(why: String) throws {
    let store = try store { $0.access.lockTimeout = .zero }
    try store.store(payload(1), for: "foobar")
    try widen(by: store)
    try store.remove("foobar")
    var options = BlobStore.CollectionOptions()
    options.dryRun = why == "dry run"
    if why == "time limit" {
      for key in Self.urls(40) { try store.store(payload(1), for: key) }
      options.maximumTime = .zero
    }
    if why == "change" {
      try store.withExclusiveAccess(to: "other") { _ in _ = try self.store().collect(options) }
    } else {
      try store.collect(options)
    }
    #expect(try places() == .mixed)
    try store.collect()
    #expect(try places() == .wide)
  }

  @Test func recordsMoveBetweenPacksAndBothPlaces() throws {
    let store = try store { $0.packing = .upTo(4096) }
    try cache.adaptiveStore().store(payload(5), for: "foobar")
    try store.store(payload(6), for: "packed")
    try widen()
    try store.store(payload(6), for: "other")
    #expect(try cache.files().filter { !$0.hasPrefix(".") } == ["v/foobar"])
    #expect(try store.packRecords().moved == 1)
    #expect(try cache.files().filter { !$0.hasPrefix(".") } == [])
    #expect(try store.load("foobar")?.payload == payload(5))
    #expect(try store.unpackRecords().moved == 3)
    let files = try cache.files().filter { !$0.hasPrefix(".") }
    #expect(files == ["v8/foobar", Self.wide("packed"), Self.wide("other")])
    for (key, count) in [("foobar", 5), ("packed", 6), ("other", 6)] as [(BlobKey, Int)] {
      #expect(try store.load(key)?.payload == payload(count))
    }
  }
}
