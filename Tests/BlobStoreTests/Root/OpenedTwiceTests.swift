import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Two threads of a store open the same thing at once: both then use what the first of them has opened.
@Suite struct OpenedTwiceTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// Runs an action between the look for a file of the cache's and the call that has opened it, as another thread would.
  private func besideOpening(_ suffix: String, _ action: @escaping @Sendable () throws -> Void) {
    let trace = trace
    trace.onCall { call, path in
      guard [.open, .openBeneath, .openDirectory].contains(call), path.string.hasSuffix(suffix) else { return nil }
      trace.onCall(nil)
      #expect(throws: Never.self) { try action() }
      return nil
    }
  }

  /// Else the locks of one process would lie on two files.
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

  /// Else a file would lie on the shelves of one, and be looked for on those of the other.
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

/// What a closure leaves for the test that has called it, in one thread.
private final class Unchecked<Value: AnyObject>: @unchecked Sendable {
  // Unchecked because one thread runs the test, and the closures within its calls.
  var value: Value?
}
