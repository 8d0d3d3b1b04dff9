import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// An operation, and what others do between two of its calls.
struct Race {
  let others: @Sendable () throws -> Void
  let operation: () throws -> Void
  var check: () throws -> Void = {}
}

/// A suite of tests of `adaptive` directories.
protocol AdaptiveSuite: BetweenCalls {}

extension AdaptiveSuite {
  static var settingsFile: String { ".blobcache.conf" }

  static func urls(_ count: Int) -> [BlobKey] { (0..<count).map { BlobKey("https://example.com/images/\($0).jpg") } }

  /// The path of a key's file in one of the 1,024 subdirectories.
  static func wide(_ key: BlobKey) -> String {
    do {
      return try RecordLayout(arrangement: .spread).path(for: key).relative
    } catch {
      preconditionFailure("the test has a key without a name: \(key)")
    }
  }

  static func narrow(_ key: BlobKey) -> String { String(wide(key).prefix(1) + wide(key).dropFirst(2)) }

  func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore { try cache.adaptiveStore(files: files, change) }

  func subdirectories() throws -> Set<String> {
    Set(try FileManager.default.contentsOfDirectory(atPath: cache.path("")).filter { !$0.hasPrefix(".") })
  }

  /// Makes the counter of records exceed the bound, so that the next change widens the directory.
  func widen() throws { try cache.setControlWord(5000, at: ControlLayout.Counter.records.present) }

  func widen(by store: BlobStore) throws { try cache.widen(by: store) }

  func places() throws -> RecordPlaces? { try store().core.root.opened()?.controlFile(.init(label: "test"))?.places }

  /// Performs a test for each call of an operation, before which others act.
  func atEachCall(
    atLeast least: Int, _ test: (Cache, CallTrace) throws -> Race
  ) throws {
    var (call, wasReached) = (0, true)
    while wasReached {
      let (cache, trace) = (try Cache(), CallTrace())
      let race = try test(cache, trace)
      let others = race.others
      let calls = CallCount()
      trace.onCall { [call] _, _ in
        defer { calls.add(1) }
        if calls.value == call { #expect(throws: Never.self, "before call \(call)") { try others() } }
        return nil
      }
      try race.operation()
      trace.onCall(nil)
      wasReached = calls.value > call
      try race.check()
      call += 1
    }
    #expect(call > least)
  }
}

extension Cache {
  /// Returns a store that lets a new directory decide its arrangement.
  func adaptiveStore(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try store(files: files) {
      $0.layout.arrangement = nil
      change(&$0)
    }
  }

  func setControlWord(_ word: Int64, at offset: Int) throws {
    let file = try FileHandle(forUpdating: URL(filePath: path(".blobcache")))
    try file.seek(toOffset: UInt64(offset))
    try file.write(contentsOf: withUnsafeBytes(of: word.littleEndian) { Data($0) })
    try file.close()
  }

  /// Widens the directory by a change of a key that has no record afterwards.
  func widen(by store: BlobStore) throws {
    try setControlWord(5000, at: ControlLayout.Counter.records.present)
    try store.store(payload(1), for: "widening")
    try store.remove("widening")
  }
}
