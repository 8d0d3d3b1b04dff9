import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// If two threads of a store open the same file concurrently, both use the file of the first thread.
@Suite struct OpenedTwiceTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// Runs an action between the lookup of a file and the call that opens it, in the role of another thread.
  private func besideOpening(_ suffix: String, _ action: @escaping @Sendable () throws -> Void) {
    let trace = trace
    trace.onCall { call, path in
      guard [.open, .openBeneath, .openDirectory].contains(call), path.string.hasSuffix(suffix) else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try action() }
      return nil
    }
  }

  /// Two control files would divide the locks of one process.
  @Test func aControlFile() throws {
    try cache.store().store(payload(5), for: "key")
    let store = try cache.store(files: trace.files)
    let open = try #require(try store.core.root.opened())
    let inner = Unchecked<ControlFile>()
    besideOpening("/" + ControlFile.name) { inner.value = try open.controlFile(store.configuration.logger) }
    let outer = try open.controlFile(store.configuration.logger)
    #expect(outer != nil)
    #expect(outer === inner.value)
  }

  /// With two bins, a file could be recycled by one and searched for in the other.
  @Test(arguments: [true, false]) func aRecyclingBin(isThere: Bool) throws {
    let first = try cache.store()
    try first.store(payload(5), for: "key")
    if isThere { _ = try #require(try first.core.root.opened()).recyclingBin(makesIt: true) }
    let store = try cache.store(files: trace.files)
    let open = try #require(try store.core.root.opened())
    let inner = Unchecked<RecyclingBin>()
    besideOpening("/" + RecyclingBin.directoryName) { inner.value = try open.recyclingBin(makesIt: true) }
    let outer = try open.recyclingBin(makesIt: true)
    #expect(outer != nil)
    #expect(outer === inner.value)
  }
}

/// A value that a closure passes to the test that called it, in one thread.
private final class Unchecked<Value: AnyObject>: @unchecked Sendable {
  // Unchecked because one thread runs the test and its closures.
  var value: Value?
}
