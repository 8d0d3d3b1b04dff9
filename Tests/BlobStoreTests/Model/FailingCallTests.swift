import BlobRecord
import BlobStore
import Foundation
import Locks
import Logging
import Posix
import SystemPackage
import TestSupport
import Testing

/// Regression tests for faults found by the crash tests, each with its one failing call.
@Suite struct FailingCallTests {
  let directory: TemporaryDirectory
  let plan = FailingCall()

  init() throws {
    directory = try TemporaryDirectory()
  }

  /// Fails a single call that the test selects.
  final class FailingCall: Sendable {
    private let refusesMaps = Lock(false)
    private let choose = Lock<(@Sendable (SystemCall, FilePath) -> Bool)?>(nil)

    func failNext(_ isChosen: @escaping @Sendable (SystemCall, FilePath) -> Bool) {
      choose.withLock { $0 = isChosen }
    }

    /// Makes all later mappings of shared memory fail.
    func refuseMaps() { refusesMaps.withLock { $0 = true } }

    func interception(of call: SystemCall, _ path: FilePath) -> Files.Interception? {
      if call == .map, refusesMaps.withLock({ $0 }) { return .fail(.operationNotSupportedByDevice) }
      return choose.withLock { choose in
        guard let isChosen = choose, isChosen(call, path) else { return nil }
        choose = nil
        return .fail(.ioError)
      }
    }
  }

  func store() throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.packing = .off
    configuration.durability = .none
    configuration.access.lockTimeout = .milliseconds(50)
    configuration.logger = Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })
    let plan = plan
    return try BlobStore(
      directory: directory.path, configuration: configuration,
      files: .still { plan.interception(of: $0, $1.path) })
  }

  /// Before the fix, the stripe's byte stayed locked while the process lived, and other processes' changes were `busy`.
  @Test func statusOfTheControlFileThatFailsLeavesNoLock() throws {
    plan.refuseMaps()
    let first = try store()
    try first.store(Data([1]), for: "key")
    plan.failNext { call, path in call == .status && path.lastComponent == ".blobcache" }
    #expect(throws: BlobStoreError.self) { try first.lock("key") }
    let second = try store()
    #expect(try second.lock("key") == .done)
  }

  /// Before the fix, a record that could be listed, but not opened again, was skipped without a report.
  @Test(arguments: [BlobStore.RemovalScope.locked, .unlocked]) func wipeReportsWhatItCannotExamine(
    scope: BlobStore.RemovalScope
  ) throws {
    let store = try store()
    try store.store(Data([1]), for: "key", locks: scope == .locked ? .one : .none)
    let hasListed = Lock(false)
    plan.failNext { call, path in
      guard call == .openBeneath, path.lastComponent == "key" else { return false }
      return hasListed.withLock { hasListed in
        defer { hasListed = true }
        return hasListed
      }
    }
    #expect(throws: BlobStoreError.self) { try store.removeAll(scope) }
    #expect(try store.contains("key"))
  }

  @Test func collectionCountsWhatItCannotExamine() throws {
    let store = try store()
    try store.store(Data([1]), for: "key")
    var configuration = store.configuration
    configuration.now = { UnixTime(seconds: Int64.max) }
    let plan = plan
    let later = try BlobStore(
      directory: directory.path, configuration: configuration,
      files: .still { plan.interception(of: $0, $1.path) })
    let hasListed = Lock(false)
    plan.failNext { call, path in
      guard call == .openBeneath, path.lastComponent == "key" else { return false }
      return hasListed.withLock { hasListed in
        defer { hasListed = true }
        return hasListed
      }
    }
    let report = try later.collect()
    #expect(report.failed == 1)
    #expect(report.expired == 0)
  }
}
