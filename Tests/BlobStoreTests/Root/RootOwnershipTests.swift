import BlobRecord
import BlobStore
import Foundation
import Locks
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, P1, P3, P4: owner, group and permissions of files and directories that a store creates.
@Suite struct RootOwnershipTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// P3: modes of the root, files, subdirectories and control file, regardless of the process's mask.
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
    // The mask applies to the process, so concurrent tests have it too and must not depend on it.
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

  /// A program with read access could otherwise take locks immediately after the control file was created.
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
    // The copy that replaces a record with several links has the root's owner, too.
    #expect(try store.lock("key") == .done)
    #expect(try cache.state("ke/key")?.links == 1)
    #expect(try cache.state("ke/key")?.owner == 12_345)
    #expect(try store.load("key")?.payload == payload(5))
    // Files of this user are records, and files of other users are not.
    try check(chown(cache.path("ke/key"), 0, 0), "chown")
    #expect(try store.contains("key"))
    try check(chown(cache.path("ke/key"), 54_321, 0), "chown")
    #expect(try store.contains("key") == false)
  }

  enum Swap: CaseIterable, Sendable { case filled, foreign, removed }

  /// P4: another user of the root replaces a subdirectory between its creation and its opening. The superuser does
  /// not change the owner of the replacement.
  @Test(.enabled(if: geteuid() == 0, "only the superuser gives files away"), arguments: Swap.allCases)
  func onlyWhatWasJustMadeIsGivenAway(swap: Swap) throws {
    try cache.makeDirectory("")
    try check(chown(cache.path(""), 12_345, 23_456), "chown")
    let trace = CallTrace()
    let store = try cache.store(files: trace.files)
    try store.store(payload(5), for: "other")
    let other = cache.outside.path.string + "/other"
    try check(mkdir(other, 0o750), "mkdir")
    // Sets the mode regardless of the process's mask.
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

  /// P4: a collection removes the empty subdirectory while the store verifies that it has created it.
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
      // The subdirectory is opened first for its files, then for listing. If it was removed, some systems return an
      // error, and others an empty list.
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

  /// P4: the set-group-ID bit is not set explicitly if it was inherited, because a sandbox may forbid that (systemd's
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

  /// P4: permissions removed by the mask are set without the set-group-ID bit if setting the bit is forbidden.
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

  /// P4, S5: a new subdirectory is removed if its owner or permissions cannot be set.
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

  /// P1: files that the superuser creates in a user's directory belong to that user.
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
    // An existing directory keeps its owner.
    let other = try Cache("cache")
    try other.makeDirectory("")
    try check(chown(other.outside.path.string, owner, owner), "chown")
    try other.store().store(payload(5), for: "key")
    #expect(try other.state("")?.owner == 0)
    #expect(try other.state("ke/key")?.owner == 0)
  }

  /// P1: a file or directory with which the user replaces the new root keeps its owner.
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
      // The parent is opened after the new directory was created.
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
    // The result of the store does not matter.
    _ = try? store.store(payload(5), for: "key")
    let owner = try fileState(what == "link" ? treasure : root)?.owner
    #expect(owner == (what == "another's" ? 54_321 : 0))
  }
}
