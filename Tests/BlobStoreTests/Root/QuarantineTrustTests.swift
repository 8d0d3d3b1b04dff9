import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, C12 and G4: files that cannot be removed from the quarantine never cause evictions.
@Suite struct QuarantineTrustTests {
  let cache: Cache

  init() throws {
    cache = try Cache()
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o1777), "chmod")
  }

  private static let stranger: uid_t = 54_321
  private static let tebibyte: off_t = 1 << 40

  private func store(files: Files = Files()) throws -> BlobStore {
    try cache.store(files: files) {
      $0.limits.size = 10_000
      $0.damagePolicy = .quarantine
    }
  }

  private func plant(_ file: String, _ byteCount: off_t) throws {
    try cache.write([1], to: file)
    try check(truncate(cache.path(file), byteCount), "truncate")
  }

  private func give(_ file: String) throws {
    try check(chown(cache.path(file), Self.stranger, Self.stranger), "chown")
  }

  enum Plant: CaseIterable, Sendable { case directory, ownOpenDirectory, file }

  /// A directory that belongs to another user, or from which other users may remove files, is not used as a
  /// quarantine. Another user's file in the quarantine is not counted.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"), arguments: Plant.allCases)
  func aStrangersQuarantineEvictsNothing(plant kind: Plant) throws {
    let store = try store()
    try store.store(payload(1000), for: "key")
    try cache.makeDirectory(".quarantine")
    try check(chmod(cache.path(".quarantine"), kind == .ownOpenDirectory ? 0o777 : 0o1777), "chmod")
    try plant(".quarantine/large", Self.tebibyte)
    switch kind {
    case .directory:
      try give(".quarantine")
      try give(".quarantine/large")
    case .file: try give(".quarantine/large")
    case .ownOpenDirectory: break
    }
    let usage = try store.usage()
    #expect(usage.quarantinedFiles == 0)
    #expect(usage.bytes == 1064)
    #expect(usage.foreignFiles == (kind == .file ? 0 : 1))
    let report = try store.collect()
    #expect(report.evicted == 0)
    #expect(report.bytesAfter == 1064)
    #expect(try store.load("key")?.payload == payload(1000))
    try store.removeAll(.locked)
    #expect(try cache.state(".quarantine/large")?.size == Int64(Self.tebibyte))
  }

  /// If the quarantine belongs to another user, damaged records are not moved, and a message is logged.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"))
  func nothingIsMovedIntoAnothersQuarantine() throws {
    try cache.makeDirectory(".quarantine")
    try give(".quarantine")
    let log = RecordedLog()
    let store = try cache.store {
      $0.damagePolicy = .quarantine
      $0.logger = log.logger
    }
    try store.store(payload(5), for: "key")
    try Damage.magicMismatch.inflict(on: "ke/key", in: cache)
    expect(.damaged) { _ = try store.load("key") }
    #expect(try cache.files() == ["ke/key"])
    #expect(log.warnings.contains { $0.contains("it belongs to user 54321") })
  }

  /// C12: a file that cannot be removed counts in `failed`, and no record is evicted because of it.
  @Test func whatCannotBeRemovedFromTheQuarantineEvictsNothing() throws {
    let trace = CallTrace()
    let store = try store(files: trace.files)
    try store.store(payload(1000), for: "key")
    try cache.makeDirectory(".quarantine")
    try check(chmod(cache.path(".quarantine"), 0o1777), "chmod")
    try plant(".quarantine/large", Self.tebibyte)
    trace.onCall { call, path in
      call == .unlink && path.string.hasSuffix("/large") ? .fail(.notPermitted) : nil
    }
    let report = try store.collect()
    #expect(report.evicted == 0)
    #expect(report.failed == 1)
    #expect(try store.load("key")?.payload == payload(1000))
    trace.onCall(nil)
    #expect(try store.collect().damaged == 1)
    #expect(try cache.files() == ["ke/key"])
  }

  /// B, F: a recycling bin of another user is not used.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"))
  func anothersBinIsNotUsed() throws {
    try check(chmod(cache.path(""), 0o755), "chmod")
    try cache.makeDirectory(".recycled")
    try give(".recycled")
    let store = try cache.store { $0.recycling = .automatic }
    for size in 1...3 { try store.store(payload(size), for: "key") }
    #expect(try cache.outside.names(in: "cache/.recycled") == [])
    #expect(try store.usage().recycledFiles == 0)
    #expect(try store.load("key")?.payload == payload(3))
  }
}
