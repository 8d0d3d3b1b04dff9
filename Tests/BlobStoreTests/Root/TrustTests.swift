import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, P13 to P15: files that other users may have written, or can still write, are not trusted.
@Suite struct TrustTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  private func makeRoot(_ mode: mode_t) throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), mode), "chmod")
  }

  /// P13: modes of the root and of a record, and the expected soundness.
  @Test(
    arguments: [
      (0o700, 0o666, true), (0o755, 0o644, true), (0o755, 0o646, false), (0o755, 0o664, false), (0o750, 0o660, false),
      (0o750, 0o606, false), (0o770, 0o660, true), (0o770, 0o666, true), (0o775, 0o664, true), (0o775, 0o666, false),
      (0o1777, 0o644, true), (0o1777, 0o666, false), (0o1770, 0o660, false), (0o777, 0o666, true),
    ] as [(mode_t, mode_t, Bool)])
  func aRecordThatStrangersMayWriteToIsDamaged(root: mode_t, file: mode_t, isSound: Bool) throws {
    try makeRoot(root)
    let store = try cache.store { $0.access.allowsWorldWritable = true }
    for key in ["key", "other"] as [BlobKey] {
      try store.store(payload(5), for: key)
      #expect(try store.load(key)?.payload == payload(5))
    }
    try check(chmod(cache.path("ke/key"), file), "chmod")
    if isSound {
      #expect(try store.load("key")?.payload == payload(5))
      #expect(try store.lock("key") == .done)
      return
    }
    let verbs: [() throws -> Void] = [
      { _ = try store.load("key") }, { _ = try store.header(for: "key") }, { _ = try store.contains("key") },
      { _ = try store.lock("key") }, { _ = try store.unlock("key") }, { _ = try store.touch("key") },
    ]
    let before = try cache.state("ke/key")
    for verb in verbs { #expect(expect(.damaged) { try verb() }?.recordError == .writableByOthers) }
    #expect(try cache.state("ke/key") == before)
    #expect(Set(try store.records().map { "\($0.file) \($0.state)" }) == ["ke/key damaged", "ot/other live"])
    #expect(try store.usage().damagedFiles == 1)
    #expect(try store.verify().damagedFiles == 1)
    // The copy that a store creates is not writable by other users.
    try store.store(payload(6), for: "key", locks: .keep)
    #expect(try store.load("key")?.payload == payload(6))
    #expect(try store.load("key")?.header.refCount == 0)
    try check(chmod(cache.path("ke/key"), file), "chmod")
    #expect(try store.remove("key") == .done)
    #expect(try cache.files() == ["ot/other"])
  }

  /// C12, P14: under a sticky root, the system prevents users from removing another user's subdirectory, so this is
  /// not counted as a failure.
  @Test(arguments: [0o1777, 0o755] as [mode_t]) func anothersSubdirectoryStays(root: mode_t) throws {
    try makeRoot(root)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key", ttl: .seconds(60))
    cache.clock.advance(by: 61)
    trace.onCall { call, path in call == .removeDirectory && path.string.hasSuffix("/ke") ? .fail(.notPermitted) : nil }
    let report = try store.collect()
    #expect(report.expired == 1 && report.failed == (root == 0o755 ? 1 : 0) && report.subdirectories == 0)
    trace.onCall(nil)
    #expect(try store.collect().subdirectories == 1)
  }

  /// P14: a subdirectory that cannot be made sticky stays foreign.
  @Test func aSubdirectoryThatCannotBeMendedStaysForeign() throws {
    try makeRoot(0o1777)
    try cache.store().store(payload(5), for: "key")
    try check(chmod(cache.path("ke"), 0o777), "chmod")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in call == .setPermissions ? .fail(.readOnlyFileSystem) : nil }
    expect(.foreignFile) { try store.store(payload(6), for: "key") }
    trace.onCall(nil)
    try store.store(payload(6), for: "key")
    #expect(try store.load("key")?.payload == payload(6))
  }

  /// P13, C2: a record that strangers may write to is removed like a damaged one; a file that is not a record stays.
  @Test func aCollectionRemovesARecordThatStrangersMayWriteTo() throws {
    try makeRoot(0o755)
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try store.lock("key")
    for file in ["ke/key", "ke/kelp"] {
      if file == "ke/kelp" { try cache.write([UInt8](repeating: 7, count: 100), to: file) }
      try check(chmod(cache.path(file), 0o666), "chmod")
      try cache.setModified(file, cache.now)
    }
    #expect(try store.collect().damaged == 0)
    cache.clock.advance(by: 601)
    #expect(try store.collect().damaged == 1)
    #expect(try cache.files() == ["ke/kelp"])
  }

  /// P13, G: the damage policies apply to a record that strangers may write to.
  @Test(arguments: [BlobStore.DamagePolicy.remove, .quarantine])
  func damagePoliciesActOnIt(policy: BlobStore.DamagePolicy) throws {
    try makeRoot(0o755)
    let store = try cache.store { $0.damagePolicy = policy }
    try store.store(payload(5), for: "key")
    try check(chmod(cache.path("ke/key"), 0o666), "chmod")
    expect(.damaged) { _ = try store.load("key") }
    #expect(try cache.files() == (policy == .remove ? [] : [".quarantine/key"]))
    #expect(try store.load("key") == nil)
  }

  /// P13: a small load checks the permissions if other users have access to the directory.
  @Test(arguments: [(0o755, false), (0o700, true)] as [(mode_t, Bool)])
  func theSmallLoadOfAnOrdinaryUserLooksToo(root: mode_t, isSound: Bool) throws {
    try makeRoot(root)
    let store = try cache.store(files: CallTrace(accessTimeTellsOwner: true).files)
    try store.store(payload(5), for: "key")
    #expect(try store.load("key")?.payload == payload(5))
    try check(chmod(cache.path("ke/key"), 0o666), "chmod")
    if isSound {
      #expect(try store.load("key")?.payload == payload(5))
    } else {
      #expect(expect(.damaged) { _ = try store.load("key") }?.recordError == .writableByOthers)
    }
  }

  /// P14: under a sticky root that others may write to, they could remove records from a subdirectory that is not
  /// sticky. The next change by its owner makes it sticky; until then, its records are not trusted.
  @Test(arguments: ["store", "collect", "wipe"]) func anOpenSubdirectoryIsMadeSticky(change: String) throws {
    try makeRoot(0o1777)
    try cache.store().store(payload(5), for: "key")
    try check(chmod(cache.path("ke"), 0o777), "chmod")
    let store = try cache.store()
    #expect(try store.load("key") == nil)
    #expect(try store.contains("key") == false)
    #expect(try store.usage().foreignFiles == 1)
    #expect(try store.usage().records == 0)
    #expect(try store.remove("key") == .notFound)
    _ = try store.collect(BlobStore.CollectionOptions(dryRun: true))
    #expect(try cache.state("ke")?.permissions == 0o777)
    switch change {
    case "store": try store.store(payload(6), for: "kexy")
    case "collect": try store.collect()
    default: try store.removeAll(.locked)
    }
    #expect(try cache.state("ke")?.permissions == 0o1777)
    #expect(try store.load("key")?.payload == payload(5))
  }

  enum Owner: CaseIterable, Sendable { case stranger, strangerSticky }

  /// P14: another user's subdirectory is foreign unless it is sticky, and nothing in it is changed.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"), arguments: Owner.allCases)
  func aStrangersSubdirectoryIsForeignUnlessItIsSticky(owner: Owner) throws {
    try makeRoot(0o1777)
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try check(chown(cache.path("ke"), 54_321, 54_321), "chown")
    if owner == .stranger { try check(chmod(cache.path("ke"), 0o755), "chmod") }
    let before = try cache.state("ke")
    let other = try cache.store()
    switch owner {
    case .strangerSticky:
      #expect(try other.load("key")?.payload == payload(5))
      try other.store(payload(6), for: "key")
      #expect(try other.remove("key") == .done)
    case .stranger:
      #expect(try other.load("key") == nil)
      #expect(try other.load(prefix: "ke") { $0.first } == nil)
      let error = expect(.foreignFile) { try other.store(payload(6), for: "key") }
      #expect(error?.message.contains("it belongs to user 54321") == true)
      #expect(try other.lock("key") == .notFound)
      #expect(try other.remove("key") == .notFound)
      #expect(try other.usage().foreignFiles == 1)
      try other.collect()
      try other.removeAll(.all)
      #expect(try cache.exists("ke/key"))
    }
    #expect(try cache.state("ke") == before)
  }

  /// C4, F1: another user's file with the name of a temporary file is foreign.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"))
  func aStrangersTemporaryFileIsForeign() throws {
    try makeRoot(0o1777)
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    for (name, owner) in [("ke/.tmp-1", 54_321), ("ke/.tmp-2", getuid()), (".tmp-3", 54_321)] as [(String, uid_t)] {
      try cache.write([1], to: name)
      try check(chown(cache.path(name), owner, owner), "chown")
    }
    #expect(try store.usage().temporaryFiles == 1)
    #expect(try store.usage().foreignFiles == 2)
    #expect(try store.collect().temporary == 1)
    #expect(try cache.files() == ["ke/key", "ke/.tmp-1", ".tmp-3"])
  }

  /// F1: another user's record that cannot be opened for writing is reported as missing; other failures are errors.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"))
  func aStrangersRecordThatMayNotBeWrittenToIsNotFound() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    for key in ["key", "other"] as [BlobKey] { try store.store(payload(5), for: key) }
    try check(chown(cache.path("ke/key"), 54_321, 54_321), "chown")
    trace.onCall { call, path in
      call == .openBeneath && !path.string.hasSuffix(".blobcache") ? .fail(.permissionDenied) : nil
    }
    for verb in [{ try store.lock($0) }, { try store.unlock($0) }, { try store.touch($0) }]
      as [(BlobKey) throws -> BlobStore.Outcome]
    {
      #expect(try verb("key") == .notFound)
      #expect(expect(.fileSystem) { _ = try verb("other") }?.errno == .permissionDenied)
    }
  }

  /// W3: a control file that any user may have created does not identify a directory as a cache.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"), arguments: [0, 54_321] as [uid_t])
  func aPlantedControlFileProvesNothing(owner: uid_t) throws {
    try makeRoot(0o1777)
    try cache.store().store(payload(5), for: "key")
    try Damage.magicMismatch.inflict(on: "ke/key", in: cache)
    try check(chown(cache.path(".blobcache"), owner, owner), "chown")
    let store = try cache.store()
    if owner == 0 {
      try store.removeAll(.all)
      #expect(try cache.files() == [])
    } else {
      expect(.notACache) { try store.removeAll(.all) }
      #expect(try cache.files() == ["ke/key"])
    }
  }

  /// P15: a named temporary file is accessible only to its writer until it becomes a record.
  @Test func aTemporaryFileIsItsWritersAlone() throws {
    try makeRoot(0o755)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "other")
    let modes = ModeList()
    trace.onCall { call, location in
      if call == .openUnnamed { return .fail(.notSupported) }
      if call == .write, let status = try? fileState(location.string) { modes.add(status.permissions) }
      return nil
    }
    try store.store(payload(5), for: "key")
    try store.store(payload(6), for: "key")
    #expect(modes.all == [0o600, 0o600])
    #expect(try cache.state("ke/key")?.permissions == 0o644)
    #expect(try store.load("key")?.payload == payload(6))
  }
}

private final class ModeList: Sendable {
  private let modes = Lock<[UInt32]>([])
  var all: [UInt32] { modes.withLock { $0 } }
  func add(_ mode: UInt32) { modes.withLock { $0.append(mode) } }
}
