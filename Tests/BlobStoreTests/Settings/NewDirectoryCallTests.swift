import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// The system calls by which a store determines the arrangement of its directory, and the handling of their failures.
@Suite struct NewDirectoryCallTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private static let settingsFile = ".blobcache.conf"

  private func store(
    files: Files = Files(), _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    try cache.store(files: files) {
      $0.layout.arrangement = nil
      change(&$0)
    }
  }

  /// Stores a blob with another program's configuration.
  private func plant(_ arrangement: RecordArrangement, _ byteCount: Int = 5) throws {
    try cache.store { $0.layout.arrangement = arrangement }.store(payload(byteCount), for: "foobar")
  }

  /// Spec/Performance.md: after the arrangement is decided, a store makes the same calls as with a configured one.
  @Test(arguments: [true, false]) func theCallsAreThoseOfAStoreThatIsTold(isOpen: Bool) throws {
    func calls(_ arrangement: RecordArrangement?) throws -> [[SystemCall]] {
      let trace = CallTrace()
      let cache = try Cache()
      try cache.store { $0.layout.arrangement = nil }.store(payload(5), for: "key")
      let store = try cache.store(files: trace.files) { $0.layout.arrangement = arrangement }
      if isOpen { _ = try store.load("key") }
      let steps: [() throws -> Void] = [
        { _ = try store.load("key") }, { try store.store(payload(5), for: "key") }, { try store.lock("key") },
        { try store.remove("key") },
      ]
      return try steps.map { step in
        _ = trace.take()
        try step()
        return trace.take().map(\.call)
      }
    }
    #expect(try calls(nil) == calls(.adaptive))
  }

  @Test func aPathCostsNoCall() throws {
    let store = try store(files: trace.files)
    try store.store(payload(5), for: "foobar")
    _ = trace.take()
    _ = try store.filePath(for: "foobar")
    #expect(trace.take().isEmpty)
  }

  /// A store fails if the settings of its new directory cannot be written.
  @Test(arguments: [SystemCall.sync, .renameNoReplace, .write])
  func settingsThatCannotBeWrittenAreTheStoresError(call: SystemCall) throws {
    try cache.makeDirectory("")
    let store = try store(files: trace.files)
    trace.onCall { [trace] found, path in
      guard found == call else { return nil }
      trace.onCall(nil)
      return .fail(.ioError)
    }
    let error = expect(.fileSystem) { try store.store(payload(5), for: "foobar") }
    #expect(error?.errno == .ioError)
    #expect(try cache.files() == [])
    try store.store(payload(5), for: "foobar")
    #expect(try cache.files() == ["v/foobar", Self.settingsFile])
  }

  @Test(arguments: [(Errno.permissionDenied, true), (.ioError, false)])
  func aHintThatMayNotBeReadIsNone(errno: Errno, isPassedOver: Bool) throws {
    try plant(.prefix)
    let store = try store(files: trace.files)
    trace.onCall { call, path in
      (call == .openBeneath || call == .open) && path.lastComponent == ".blobcache" ? .fail(errno) : nil
    }
    if isPassedOver {
      #expect(try store.load("foobar")?.payload == payload(5))
      // A record that may be stored in another place is not replaced.
      let error = expect(.fileSystem) { try store.store(payload(6), for: "foobar") }
      #expect(error?.errno == errno)
      trace.onCall(nil)
      try store.store(payload(6), for: "foobar")
      #expect(try cache.files() == ["fo/foobar"])
    } else {
      let error = expect(.fileSystem) { _ = try store.load("foobar") }
      #expect(error?.errno == errno)
    }
  }

  @Test func aThingInTheControlFilesPlaceGivesNoHint() throws {
    try cache.makeDirectory(".blobcache")
    try cache.write([1], to: "fo/other")
    #expect(try store().load("foobar") == nil)
    #expect(try store().filePath(for: "foobar") == cache.root.appending("fo/foobar"))
  }

  @Test(arguments: [(Errno.permissionDenied, true), (.ioError, false)])
  func aRootThatMayNotBeListedHoldsRecordsByPrefix(errno: Errno, isPassedOver: Bool) throws {
    try cache.makeDirectory("")
    let root = cache.root
    let store = try store(files: trace.files)
    let opens = CallCount()
    trace.onCall { call, path in
      guard call == .openDirectory, path == root else { return nil }
      // The first call opens the root itself.
      opens.add(1)
      return opens.value > 1 ? .fail(errno) : nil
    }
    if isPassedOver {
      #expect(try store.filePath(for: "foobar") == root.appending("fo/foobar"))
      expect(.fileSystem) { try store.store(payload(5), for: "foobar") }
      trace.onCall(nil)
      try store.store(payload(5), for: "foobar")
      #expect(try cache.exists("v/foobar"))
    } else {
      let error = expect(.fileSystem) { _ = try store.load("foobar") }
      #expect(error?.errno == errno)
    }
  }
}
