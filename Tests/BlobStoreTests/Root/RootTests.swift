import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, P.
@Suite struct RootTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// Long enough for the root to be looked at again.
  private func waitForNextLook() { Thread.sleep(forTimeInterval: 1.1) }

  /// P1.
  @Test func absentRootHoldsNothingAndIsMadeByTheFirstStore() throws {
    let cache = try Cache("some/where/cache")
    let store = try cache.store()
    #expect(try store.load("key") == nil)
    #expect(try store.load(prefix: "k") { $0.first } == nil)
    #expect(try store.contains("key") == false)
    #expect(try store.touch("key") == .notFound)
    #expect(try store.lock("key") == .notFound)
    #expect(try store.unlock("key") == .notFound)
    #expect(try store.remove("key") == .notFound)
    #expect(try store.removeAll(.all) == store.removeAll(.locked))
    #expect(try store.usage() == BlobStore.Usage())
    #expect(try store.verify() == BlobStore.VerificationReport())
    #expect(Array(try store.records()).isEmpty)
    #expect(try store.collect().examined == 0)
    #expect(try cache.outside.names() == [])
    try store.store(payload(5), for: "key")
    #expect(try cache.state("")?.permissions == 0o700)
    #expect(try cache.state("ke")?.permissions == 0o700)
    #expect(try cache.state("ke/key")?.permissions == 0o600)
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// P2.
  @Test func absentRootIsAnErrorWhereItIsNotToBeMade() throws {
    let store = try cache.store { $0.access.createsDirectory = false }
    let operations: [() throws -> Void] = [
      { _ = try store.load("key") }, { _ = try store.load(prefix: "k") { $0.first } },
      { _ = try store.header(for: "key") },
      { _ = try store.contains("key") }, { try store.store(payload(5), for: "key") }, { try store.touch("key") },
      { try store.lock("key") }, { try store.unlock("key") }, { try store.remove("key") },
      { try store.removeAll(.all) },
      { try store.removeAll(.unlocked) }, { _ = try store.records() }, { _ = try store.usage() },
      { _ = try store.verify() }, { try store.collect() },
    ]
    for operation in operations {
      let error = expect(.directoryMissing) { try operation() }
      #expect(error?.path == cache.root)
    }
    #expect(try cache.outside.names() == [])
    try cache.makeDirectory("")
    for operation in operations { #expect(throws: Never.self) { try operation() } }
  }

  /// P3: mode of the root, of files, of subdirectories, of the control file; whatever the process's mask.
  @Test(
    .serialized,
    arguments: [
      (0o700, 0o600, 0o700, 0o600), (0o750, 0o640, 0o750, 0o600), (0o755, 0o644, 0o755, 0o600),
      (0o770, 0o660, 0o770, 0o660), (0o775, 0o664, 0o775, 0o660), (0o1777, 0o644, 0o1777, 0o666),
      (0o1770, 0o640, 0o1770, 0o660), (0o1775, 0o644, 0o1775, 0o660), (0o1755, 0o644, 0o1755, 0o600),
    ] as [(mode_t, UInt32, UInt32, UInt32)])
  func filesTakeTheRootsPermissions(root: mode_t, file: UInt32, directory: UInt32, control: UInt32) throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), root), "chmod")
    // The mask is the process's, so every test that runs beside this one has it too; none may depend on it.
    let mask = umask(0o077)
    defer { umask(mask) }
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try store.store(payload(5), for: "k")
    #expect(try cache.state("ke")?.permissions == directory)
    #expect(try cache.state("ke/key")?.permissions == file)
    #expect(try cache.state("k")?.permissions == file)
    #expect(try cache.state(".blobcache")?.permissions == control)
    try Damage.magicMismatch.inflict(on: "ke/key", in: cache)
    let mover = try cache.store { $0.damagePolicy = .quarantine }
    expect(.damaged) { _ = try mover.load("key") }
    #expect(try cache.state(".quarantine")?.permissions == directory)
  }

  /// A program that may only read could else take its locks in the moment after it was made.
  @Test func theControlFileIsNeverOpenToReaders() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o755), "chmod")
    let trace = CallTrace()
    let modes = Lock<Set<UInt32?>>([])
    let cache = cache
    trace.onCall { _, _ in
      let mode = try? cache.state(".blobcache")?.permissions
      modes.withLock { _ = $0.insert(mode) }
      return nil
    }
    try cache.store(files: trace.files).store(payload(5), for: "key")
    #expect(modes.withLock { $0 } == [nil, 0o600])
  }

  /// P4.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"))
  func filesTakeTheRootsOwner() throws {
    try cache.makeDirectory("")
    try check(chown(cache.path(""), 12_345, 23_456), "chown")
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try check(link(cache.path("ke/key"), cache.outside.path.string + "/backup"), "link")
    for file in ["ke", "ke/key"] {
      #expect(try cache.state(file)?.owner == 12_345)
      #expect(try cache.state(file)?.group == 23_456)
    }
    // A copy of a linked record, too.
    #expect(try store.lock("key") == .done)
    #expect(try cache.state("ke/key")?.links == 1)
    #expect(try cache.state("ke/key")?.owner == 12_345)
    #expect(try store.load("key")?.payload == payload(5))
    // Ours, and no one else's, are records.
    try check(chown(cache.path("ke/key"), 0, 0), "chown")
    #expect(try store.contains("key"))
    try check(chown(cache.path("ke/key"), 54_321, 0), "chown")
    #expect(try store.contains("key") == false)
  }

  enum Swap: CaseIterable, Sendable { case filled, foreign, removed }

  /// P4. Between the making of a subdirectory and its opening, somebody who may write to the root puts another one there: the
  /// superuser does not give that away.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"), arguments: Swap.allCases)
  func onlyWhatWasJustMadeIsGivenAway(swap: Swap) throws {
    try cache.makeDirectory("")
    try check(chown(cache.path(""), 12_345, 23_456), "chown")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "other")
    let other = cache.outside.path.string + "/other"
    try check(mkdir(other, 0o750), "mkdir")
    // Whatever the process's mask leaves.
    try check(chmod(other, 0o750), "chmod")
    if swap == .filled { try Data("secret".utf8).write(to: URL(filePath: other + "/secret")) }
    if swap == .foreign { try check(chown(other, 0, 0), "chown") }
    if swap == .foreign { try check(chown(other, 54_321, 54_321), "chown") }
    let made = CallCount()
    let path = cache.path("ke")
    trace.onCall { call, location in
      guard location.string.hasSuffix("/ke"), call == .makeDirectory || call == .openDirectory else { return nil }
      if call == .makeDirectory { made.add(1) }
      guard call == .openDirectory, made.value == 1 else { return nil }
      made.add(1)
      #expect(rmdir(path) == 0)
      if swap != .removed { #expect(rename(other, path) == 0) }
      return nil
    }
    try store.store(payload(5), for: "key")
    #expect(try store.load("key")?.payload == payload(5))
    let state = try #require(try cache.state("ke"))
    switch swap {
    case .filled: #expect(state.owner == 0 && state.group == 0 && state.permissions == 0o750)
    case .foreign: #expect(state.owner == 54_321 && state.group == 54_321 && state.permissions == 0o750)
    case .removed: #expect(state.owner == 12_345 && state.group == 23_456 && state.permissions == 0o700)
    }
  }

  /// P4. A collection removes the empty subdirectory while the store looks whether it is the one it has made.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"), arguments: [false, true])
  func aSubdirectoryThatGoesWhileItIsLookedAtIsMadeAgain(saysSo: Bool) throws {
    try cache.makeDirectory("")
    try check(chown(cache.path(""), 12_345, 23_456), "chown")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "other")
    let (made, opened) = (CallCount(), CallCount())
    let path = cache.path("ke")
    trace.onCall { call, location in
      guard location.string.hasSuffix("/ke") else { return nil }
      if call == .makeDirectory { made.add(1) }
      guard call == .openDirectory, made.value == 1 else { return nil }
      opened.add(1)
      // Opened first for what lies in it, then for a list of that. Of a directory that is gone some systems say so, others
      // list nothing.
      guard opened.value == 2 else { return nil }
      #expect(rmdir(path) == 0)
      return saysSo ? .fail(.noSuchFileOrDirectory) : nil
    }
    try store.store(payload(5), for: "key")
    #expect(made.value == 2)
    #expect(try store.load("key")?.payload == payload(5))
    let state = try #require(try cache.state("ke"))
    #expect(state.owner == 12_345 && state.group == 23_456 && state.permissions == 0o700)
  }

  /// P4.
  @Test func setGroupIDIsFollowed() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o2750), "chmod")
    try cache.store().store(payload(5), for: "key")
    #if os(Linux)
      #expect(try cache.state("ke")?.permissions == 0o2750)
    #endif
    #expect(try cache.state("ke/key")?.permissions == 0o640)
    #expect(try cache.state("ke/key")?.group == cache.state("")?.group)
  }

  /// P4: the bit that a subdirectory has inherited is not asked for, which a sandbox may forbid (systemd's
  /// `RestrictSUIDSGID`).
  @Test func inheritedSetGroupIDIsNotAskedFor() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o2700), "chmod")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in call == .setPermissions ? .fail(.notPermitted) : nil }
    try store.store(payload(5), for: "key")
    #if os(Linux)
      #expect(try cache.state("ke")?.permissions == 0o2700)
    #endif
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// P4: where the mask has taken permissions, and the bit may not be asked for, the subdirectory gets them without it.
  @Test func permissionsAreGivenWithoutABitThatMayNotBeAskedFor() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o2750), "chmod")
    umask(0o077)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      guard call == .setPermissions, path.lastComponent == "ke" else { return nil }
      trace.onCall(nil)
      return .fail(.notPermitted)
    }
    try store.store(payload(5), for: "key")
    #if os(Linux)
      #expect(trace.take().count { $0.call == .setPermissions && $0.path == cache.path("ke") } == 2)
      #expect(try cache.state("ke")?.permissions == 0o750)
    #endif
    #expect(try cache.state("ke/key")?.permissions == 0o640)
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// P4, S5: a subdirectory that cannot be given what it lacks is not left behind.
  @Test(arguments: [0o750, 0o2750] as [mode_t]) func aSubdirectoryThatCannotBeAdoptedIsNotLeft(mode: mode_t) throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), mode), "chmod")
    umask(0o077)
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, path in
      call == .setPermissions && path.lastComponent == "ke" ? .fail(.notPermitted) : nil
    }
    let error = expect(.fileSystem) { try store.store(payload(5), for: "key") }
    #expect(error?.errno == .notPermitted)
    #expect(try !cache.exists("ke"))
    trace.onCall(nil)
    try store.store(payload(5), for: "key")
    #expect(try cache.state("ke/key")?.permissions == 0o640)
  }

  /// P1: what the superuser makes in somebody's directory belongs to that user; in its own, to itself.
  @Test(
    .enabled(if: geteuid() == 0, "only the superuser gives files away"),
    arguments: ["cache", "some/where/cache"], [0, 12_345] as [uid_t])
  func aNewRootBelongsToWhoOwnsTheDirectoryAboveIt(root: String, owner: uid_t) throws {
    let cache = try Cache(FilePath("home/" + root))
    let home = cache.outside.path.string + "/home"
    try FileManager.default.createDirectory(atPath: home, withIntermediateDirectories: false)
    try check(chown(home, owner, owner == 0 ? 0 : 23_456), "chown")
    try cache.store().store(payload(5), for: "key")
    let below = try FileManager.default.subpathsOfDirectory(atPath: home)
    #expect(below.contains(root + "/ke/key") && below.contains(root + "/.blobcache"))
    for name in below {
      let state = try fileState(home + "/" + name)
      #expect(state?.owner == owner, "\(name)")
      #expect(state?.group == (owner == 0 ? 0 : 23_456), "\(name)")
    }
    #expect(try cache.state("")?.permissions == 0o700)
    // What is there already stays whose it is.
    let other = try Cache("cache")
    try other.makeDirectory("")
    try check(chown(other.outside.path.string, owner, owner), "chown")
    try other.store().store(payload(5), for: "key")
    #expect(try other.state("")?.owner == 0)
    #expect(try other.state("ke/key")?.owner == 0)
  }

  /// P1: what the user puts in the place of what was just made stays whose it is.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"), arguments: ["link", "full", "another's"])
  func whatTookThePlaceOfANewRootIsNotGivenAway(what: String) throws {
    let cache = try Cache("home/cache")
    let home = cache.outside.path.string + "/home"
    let treasure = cache.outside.path.string + "/treasure"
    for directory in [home, treasure] {
      try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
    }
    try Data("x".utf8).write(to: URL(filePath: treasure + "/x"))
    try check(chown(home, 12_345, 23_456), "chown")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    let root = cache.root.string
    trace.onCall { call, path in
      // The directory above is opened once the new one is there.
      guard call == .openDirectory, path.string == home else { return nil }
      trace.onCall(nil)
      rmdir(root)
      switch what {
      case "link": symlink(treasure, root)
      case "full": rename(treasure, root)
      default:
        mkdir(root, 0o700)
        chown(root, 54_321, 54_321)
      }
      return nil
    }
    // Whether the store finds a cache there is not the question.
    _ = try? store.store(payload(5), for: "key")
    let owner = try fileState(what == "link" ? treasure : root)?.owner
    #expect(owner == (what == "another's" ? 54_321 : 0))
  }

  /// P5.
  @Test func worldWritableRootIsRefusedUnlessStickyOrAllowed() throws {
    try cache.makeDirectory("")
    try check(chmod(cache.path(""), 0o777), "chmod")
    let store = try cache.store()
    let operations: [() throws -> Void] = [
      { _ = try store.load("key") }, { try store.store(payload(5), for: "key") }, { try store.lock("key") },
      { try store.remove("key") }, { _ = try store.usage() }, { try store.collect() }, { try store.removeAll(.all) },
    ]
    for operation in operations {
      let error = expect(.worldWritableDirectory) { try operation() }
      #expect(error?.path == cache.root)
    }
    #expect(try cache.files() == [])
    try cache.store { $0.access.allowsWorldWritable = true }.store(payload(5), for: "key")
    expect(.worldWritableDirectory) { _ = try store.load("key") }
    try check(chmod(cache.path(""), 0o1777), "chmod")
    // What was stored when everybody could write to it is not believed (P13, P14).
    #expect(try store.load("key") == nil)
    try store.store(payload(6), for: "key")
    #expect(try store.load("key")?.payload == payload(6))
  }

  /// P6: with subdirectories, without, and from a descriptor.
  @Test(arguments: [true, false], [true, false]) func removedRootIsMadeAgain(separates: Bool, fromInput: Bool) throws {
    let store = try cache.store { $0.layout.separatesDirectories = separates }
    try store.store(payload(5), for: "key")
    try FileManager.default.removeItem(atPath: cache.path(""))
    #expect(try store.load("key") == nil)
    #expect(try store.lock("key") == .notFound)
    #expect(try store.remove("key") == .notFound)
    if fromInput {
      let source = cache.outside.path.appending("source")
      try payload(6).write(to: URL(filePath: source.string))
      let input = try FileDescriptor.open(source, .readOnly)
      try store.store(contentsOf: input, for: "key")
      try input.close()
    } else {
      try store.store(payload(6), for: "key")
    }
    #expect(try store.load("key")?.payload == payload(6))
    #expect(try cache.files() == [separates ? "ke/key" : "key"])
  }

  /// P6: not only at the beginning.
  @Test func subdirectoryRemovedUnderAStoreIsMadeAgain() throws {
    let trace = CallTrace()
    let cache = cache
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in
      guard call == .write else { return nil }
      trace.onCall(nil)
      try? FileManager.default.removeItem(atPath: cache.path(""))  // seen by what is expected below
      return nil
    }
    try store.store(payload(5), for: "key")
    #expect(try cache.files() == ["ke/key"])
    #expect(try store.load("key")?.payload == payload(5))
  }

  /// P7: both roots have the key, so that what is found tells which is used.
  @Test(arguments: ["load", "header", "lock", "remove", "store", "records", "usage"])
  func replacedRootIsNoticed(operation: String) throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try check(rename(cache.path(""), cache.outside.path.string + "/moved"), "rename")
    try cache.store().store(payload(6), for: "key")
    waitForNextLook()
    let moved = cache.outside.path.string + "/moved/ke/key"
    let before = try fileState(moved)
    switch operation {
    case "load": #expect(try store.load("key")?.payload == payload(6))
    case "header": #expect(try store.header(for: "key")?.payloadSize == 6)
    case "lock":
      #expect(try store.lock("key") == .done)
      #expect(try cache.header("ke/key").refCount == 1)
    case "remove":
      #expect(try store.remove("key") == .done)
      #expect(try cache.files() == [])
    case "store":
      try store.store(payload(7), for: "key")
      #expect(try cache.bytes("ke/key").count == 71)
    case "records": #expect(try store.records().map(\.fileSize) == [70])
    default: #expect(try store.usage().bytes == 70)
    }
    #expect(try fileState(moved) == before)
  }

  /// P7: looking costs a system call, so it is not done each time.
  @Test func rootIsLookedAtOnceASecond() throws {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "key")
    func looks(_ loads: Int) throws -> Int {
      _ = trace.take()
      for _ in 0..<loads { _ = try store.load("key") }
      return trace.take().count { $0.call == .status && $0.path == cache.root.string }
    }
    let start = ContinuousClock.now
    let looked = try looks(100)
    #expect(Double(looked) <= start.duration(to: .now) / .seconds(1) + 1)
    waitForNextLook()
    #expect(try looks(1) == 1)
  }

  /// P3: files get the permissions that the root has by then.
  @Test func changedPermissionsAreNoticed() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    #expect(try cache.state("ke/key")?.permissions == 0o600)
    try check(chmod(cache.root.string, 0o750), "chmod")
    waitForNextLook()
    try store.store(payload(5), for: "other")
    #expect(try cache.state("ot")?.permissions == 0o750)
    #expect(try cache.state("ot/other")?.permissions == 0o640)
  }

  /// P8.
  @Test func otherThanADirectoryIsATypedError() throws {
    try Data("x".utf8).write(to: URL(filePath: cache.root.string))
    let store = try cache.store()
    for operation in [
      { _ = try store.load("key") }, { try store.store(payload(5), for: "key") }, { try store.lock("key") },
      { try store.remove("key") }, { _ = try store.usage() }, { try store.collect() }, { try store.removeAll(.all) },
    ] as [() throws -> Void] {
      let error = expect(.fileSystem) { try operation() }
      #expect(error?.errno == .notDirectory)
      #expect(error?.path == cache.root)
      #expect(error?.systemCall == "open(2)")
    }
    #expect(try bytes(ofFile: cache.root.string) == [UInt8](ascii: "x"))
  }

  /// P8: links above and at the root are the caller's business; those that lead nowhere are errors of a store.
  @Test func rootMayBeALink() throws {
    let target = cache.outside.path.string + "/target"
    try check(symlink(target, cache.root.string), "symlink")
    let store = try cache.store()
    #expect(try store.load("key") == nil)
    let error = expect(.fileSystem) { try store.store(payload(5), for: "key") }
    #expect(error?.errno == .noSuchFileOrDirectory)
    try FileManager.default.createDirectory(atPath: target, withIntermediateDirectories: false)
    try check(chmod(target, 0o700), "chmod")
    try store.store(payload(5), for: "key")
    #expect(try fileState(target + "/ke/key") != nil)
  }

  /// P8: a root that may not be read, and one that may not be written.
  @Test(.enabled(if: geteuid() != 0, "permission bits do not bind the superuser"))
  func forbiddenRootIsATypedError() throws {
    let store = try cache.store()
    try store.store(payload(5), for: "key")
    try check(chmod(cache.path("ke"), 0o500), "chmod")
    let error = expect(.fileSystem) { try store.store(payload(6), for: "key") }
    #expect(error?.errno == .permissionDenied)
    cache.clock.advance(by: 1)
    #expect(try store.load("key")?.payload == payload(5))
    try check(chmod(cache.path("ke/key"), 0o400), "chmod")
    cache.clock.advance(by: 1)
    #expect(try store.load("key")?.payload == payload(5))
    expect(.fileSystem) { try store.lock("key") }
    try check(chmod(cache.path("ke/key"), 0), "chmod")
    #expect(expect(.fileSystem) { _ = try store.load("key") }?.errno == .permissionDenied)
    #expect(try store.records().map(\.state) == [.unreadable])
    try check(chmod(cache.path("ke"), 0), "chmod")
    #expect(try store.usage().unreadableFiles == 1)
    #expect(try store.collect().failed == 1)
    try check(chmod(cache.path("ke"), 0o700), "chmod")
    try check(chmod(cache.path(""), 0), "chmod")
    let other = try cache.store()
    #expect(expect(.fileSystem) { _ = try other.load("key") }?.errno == .permissionDenied)
    try check(chmod(cache.path(""), 0o700), "chmod")
  }

  /// P8: the same for the superuser, by faults.
  @Test(arguments: [Errno.permissionDenied, .readOnlyFileSystem, .ioError]) func errorsCarryTheirCause(
    errno: Errno
  )
    throws
  {
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    trace.onCall { call, _ in call == .openDirectory ? .fail(errno) : nil }
    for operation in [
      { _ = try store.load("key") }, { try store.store(payload(5), for: "key") }, { _ = try store.usage() },
    ] as [() throws -> Void] {
      let error = expect(.fileSystem) { try operation() }
      #expect(error?.errno == errno)
      #expect(error?.path == cache.root)
    }
  }

  /// P9.
  @Test func configurationsThatMakeNoSenseAreRefused() throws {
    let changes: [(inout BlobStore.Configuration) -> Void] = [
      { $0.limits.size = 0 }, { $0.limits.size = -1 }, { $0.limits.freeSpaceFloor = -1 }, { $0.limits.count = 0 },
      { $0.limits.evictionTarget = 0 }, { $0.limits.evictionTarget = 1.1 }, { $0.limits.evictionTarget = .nan },
      { $0.limits.payload = -1 },
    ]
    for change in changes { expect(.invalidConfiguration) { _ = try cache.store(change) } }
    expect(.invalidConfiguration) { _ = try BlobStore(directory: "") }
  }
}

extension [UInt8] {
  init(ascii text: String) { self = Array(text.utf8) }
}
