import BlobStore
import Dispatch
import FaultOperations
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/ControlFile.md, "Sessions": processes with equal process IDs in different namespaces, such as containers that
/// share a directory.
@Suite struct NamespaceTests {
  /// The worker has the process ID 1 in its namespace, and ends with its launcher.
  private static let launcher = ["unshare", "--pid", "--fork", "--kill-child", "--"]

  @Test(.canUnshare, arguments: [false, true]) func processesOfOneNumberAreKeptApart(packs: Bool) throws {
    let directory = try TemporaryDirectory(inMemory: true)
    let cache = directory.path.string + "/cache"
    nonisolated(unsafe) let workers = try (0..<2).map { _ in
      try Worker(cache, .none, packs: packs, by: Self.launcher)
    }
    let key = "shared"
    #expect(workers[0].run(.store(key, PayloadName("old", 300)))?.outcome == .done)
    let count = 200
    DispatchQueue.concurrentPerform(iterations: workers.count) { number in
      for _ in 0..<count { #expect(workers[number].run(.lock(key))?.outcome == .done) }
    }
    var settings = StoreSettings(directory: FilePath(cache))
    settings.packs = packs
    let store = try settings.makeStore()
    #expect(try store.header(for: BlobKey(key))?.refCount == UInt32(2 * count))
    // The death of one worker is not mistaken for the death of the other.
    workers[0].kill()
    #expect(workers[1].run(.lock(key))?.outcome == .done)
    #expect(try store.lock(BlobKey(key)) == .done)
    #expect(try store.header(for: BlobKey(key))?.refCount == UInt32(2 * count + 2))
  }
}

extension Trait where Self == ConditionTrait {
  /// Skips a test visibly if a process cannot create a namespace.
  static var canUnshare: Self {
    .enabled("needs unshare(1), and the right to make a namespace of processes") {
      guard Programs.installed("unshare") != nil else { return false }
      return (try? ChildProcess.runSuccessfully(["unshare", "--pid", "--fork", "--kill-child", "--", "true"])) != nil
    }
  }
}
