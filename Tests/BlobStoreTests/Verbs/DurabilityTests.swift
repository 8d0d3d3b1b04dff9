import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, D: the system calls and their order. Effects on a medium need tests with power failures.
@Suite struct DurabilityTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  /// The call that gives a new record its name.
  private let publication = "\(SystemCall.publication) record"
  /// A publication that fails because the name exists, after which an unnamed file gets a temporary name.
  private let publicationInVain =
    ["\(SystemCall.publication) record"] + (SystemCall.hasUnnamedFiles ? ["linkUnnamed file"] : [])

  /// Returns the calls relevant to durability, with `file` for a temporary file and names for the others.
  private func calls(of body: () throws -> Void) rethrows -> [String] {
    _ = trace.take()
    try body()
    return trace.take().compactMap { entry in
      let calls: [SystemCall] = [.sync, .rename, .renameNoReplace, .renameExchange, .linkUnnamed, .unlink]
      guard calls.contains(entry.call) else { return nil }
      let name =
        switch entry.path.dropFirst(cache.root.string.count) {
        case "": "root"
        case "/ke": "directory"
        case "/ke/key": "record"
        default:
          entry.path.contains("/.tmp-") || entry.path.hasSuffix("/.unnamed")
            ? "file" : entry.path.contains("/.recycled/") ? "recycled" : entry.path
        }
      return "\(entry.call) \(name)"
    }
  }

  private func store(_ durability: BlobStore.Durability) throws -> BlobStore {
    let store = try cache.store(files: trace.files) { $0.durability = durability }
    // The first store syncs the new root, so that the syncs of the root do not appear in the tests.
    try store.store(payload(1), for: "other")
    return store
  }

  /// D1.
  @Test func noneSyncsNothing() throws {
    let store = try store(.none)
    #expect(try calls { try store.store(payload(5), for: "key", locks: .one) } == [publication])
    #expect(
      try calls { try store.store(payload(5), for: "key", locks: .keep) }
        == publicationInVain + ["rename record"])
    #expect(
      try calls {
        try store.lock("key")
        try store.unlock("key")
        cache.clock.advance(by: 1)
        try store.touch("key")
      } == [])
    #expect(try calls { try store.remove("key") } == ["unlink record"])
  }

  /// D2.
  @Test func barrierSyncsTheFileFirst() throws {
    let store = try store(.barrier)
    #expect(try calls { try store.store(payload(5), for: "key") } == ["sync file", publication])
    #expect(
      try calls { try store.store(payload(5), for: "key") }
        == ["sync file"] + publicationInVain + ["rename record"])
    #expect(try calls { try store.lock("key") } == ["sync record"])
  }

  /// D3.
  @Test func fullSyncsTheFileFirstAndTheDirectoriesAfter() throws {
    let store = try store(.full)
    #expect(
      try calls { try store.store(payload(5), for: "key") }
        == ["sync file", publication, "sync directory", "sync root"])
    #expect(
      try calls { try store.store(payload(5), for: "key") }
        == ["sync file"] + publicationInVain + ["rename record", "sync directory", "sync root"])
    cache.clock.advance(by: 1)
    #expect(try calls { try store.touch("key") } == ["sync record"])
    #expect(try calls { try store.lock("key") } == ["sync record", "sync directory", "sync root"])
    #expect(try calls { try store.unlock("key") } == ["sync record"])
    #expect(try calls { try store.remove("key") } == ["unlink record", "sync directory"])
  }

  /// D3: without subdirectories, only the root is synced.
  @Test func fullSyncsTheRootOfAFlatCache() throws {
    let store = try cache.store(files: trace.files) {
      $0.durability = .full
      $0.layout.separatesDirectories = false
    }
    try store.store(payload(1), for: "other")
    let record = "\(cache.root.string)/key"
    let made = try calls { try store.store(payload(5), for: "key") }
    #expect(made == ["sync file", "\(SystemCall.publication) \(record)", "sync root"])
    _ = trace.take()
    try store.lock("key")
    #expect(trace.take().filter { $0.call == .sync }.map(\.path) == [record, cache.root.string])
  }

  /// D3: a wipe syncs each directory once, after its last record was removed.
  @Test(arguments: [BlobStore.RemovalScope.all, .unlocked]) func fullSyncsWhatAWipeHasEmptied(
    scope: BlobStore.RemovalScope
  ) throws {
    let store = try store(.full)
    for key in ["key", "kez"] as [BlobKey] { try store.store(payload(5), for: key) }
    let made = try calls { try store.removeAll(scope) }
    let ofDirectory = made.indices.filter { made[$0].contains("record") || made[$0].contains("/ke/kez") }
    #expect(ofDirectory.count == 2)
    #expect(made.indices.filter { made[$0] == "sync directory" }.count == 1)
    #expect(try #require(made.firstIndex(of: "sync directory")) > #require(ofDirectory.last))
    #expect(made.last == "sync root")
  }

  /// D4: a load's touch is never synced at any level.
  @Test func touchOfALoadIsNotSynced() throws {
    let store = try store(.full)
    try store.store(payload(5), for: "key")
    cache.clock.advance(by: 1)
    #expect(try calls { _ = try store.load("key") } == [])
    #expect(try cache.header("ke/key").updateTime == UInt64(cache.now))
  }

  /// D4.
  @Test func automaticSyncsWhatConcernsLocks() throws {
    let store = try store(.automatic)
    #expect(try calls { try store.store(payload(5), for: "key") } == [publication])
    #expect(
      try calls { try store.store(payload(5), for: "key") }
        == publicationInVain
        + (WriteLease.isAvailable ? ["renameExchange record", "rename recycled"] : ["rename record"]))
    cache.clock.advance(by: 1)
    #expect(try calls { try store.touch("key") } == [])
    #expect(try calls { try store.lock("key") } == ["sync record", "sync directory", "sync root"])
    // A locked record may be replaced only by a record that is on the medium.
    for locks in [.keep, .none] as [BlobStore.LockPolicy] {
      let made = try calls { try store.store(payload(5), for: "key", locks: locks) }
      #expect(
        Array(made.suffix(3)) == ["rename record", "sync directory", "sync root"])
      #expect(made.firstIndex(of: "sync file") ?? .max < made.firstIndex(of: "rename record") ?? 0)
    }
    #expect(
      try calls { try store.remove("key") } == [WriteLease.isAvailable ? "rename recycled" : "unlink record"])
    #expect(
      try calls { try store.store(payload(5), for: "key", locks: .one) }
        == ["sync file", publication, "sync directory", "sync root"])
    #expect(try calls { try store.unlock("key") } == ["sync record"])
    #expect(try calls { try store.unlock("key") } == [])
    try store.lock("key")
    #expect(try calls { try store.remove("key") } == ["unlink record", "sync directory"])
  }

  /// D5: the kernel may have dropped the dirty pages, and a second sync would report success.
  @Test(arguments: [false, true]) func failedSyncGivesTheFileUp(replaces: Bool) throws {
    let store = try store(.full)
    if replaces { try store.store(payload(5), for: "key", locks: .one) }
    let before = try cache.snapshot()
    trace.onCall { call, _ in call == .sync ? .fail(.ioError) : nil }
    let made = calls {
      let error = expect(.fileSystem) { try store.store(payload(6), for: "key") }
      #expect(error?.systemCall == "fsync(2)")
    }
    #expect(made == ["sync file"] + (SystemCall.hasUnnamedFiles ? [] : ["unlink file"]))
    #expect(try cache.snapshot().filter { !$0.key.hasSuffix("/ke") } == before.filter { !$0.key.hasSuffix("/ke") })
  }

  /// D6.
  @Test func newRootIsOnTheMediumBeforeItIsUsed() throws {
    let cache = try Cache("a/b/cache")
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    let made = trace.take().filter { [.makeDirectory, .sync, SystemCall.publication].contains($0.call) }
    let outside = cache.outside.path.string
    let synced = made.prefix { $0.call != SystemCall.publication }.filter { $0.call == .sync }.map(\.path)
    #expect(synced == [outside, outside + "/a", outside + "/a/b"])
  }

  /// D3: the sync of the directory fails for lack of space, after the record was published and locked by another
  /// store. The record is not stored again.
  @Test func aStoreTakesEffectOnce() throws {
    let store = try store(.full)
    let other = try cache.store()
    trace.onCall { call, path in
      guard call == .sync, path.string.hasSuffix("/ke") else { return nil }
      #expect(throws: Never.self) { try other.lock("key") }
      return .fail(.noSpace)
    }
    let error = expect(.fileSystem) { try store.store(payload(5), for: "key") }
    #expect(error?.errno == .noSpace)
    trace.onCall(nil)
    #expect(try store.header(for: "key")?.refCount == 1)
  }
}
