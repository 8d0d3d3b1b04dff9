import Foundation
import SystemPackage
import TestSupport
import Testing

#if canImport(Darwin)
  import Darwin
#elseif canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

/// Spec/Semantics.md, P and F: owner, group member and stranger in separate processes, with roots of all kinds.
@Suite(.enabled(if: CacheUser.areAvailable, CacheUser.requirement), .timeLimit(.minutes(30)))
struct SeveralUsersTests {
  /// P3: only its owner and the superuser can use a private root, and the superuser's records belong to the owner.
  @Test(arguments: [CacheUser.member, .stranger]) func aPrivateRootIsOfNoUseToOthers(user: CacheUser) async throws {
    let root = try SharedRoot(0o700)
    try await root.store("payload", for: "key", as: .owner)
    for verb in ["load", "store", "remove", "lock", "unlock", "touch"] {
      let run = try await root.run(as: user, verb, "DIR", "key", input: "forged")
      #expect(run.status == 2, "\(verb)")
      #expect(run.error.contains("Permission denied"), "\(verb)")
    }
    #expect(try await root.load("key", as: .owner) == "payload")
    try await root.store("of the superuser", for: "key", as: .superuser)
    #expect(root.state("7c/key")?.owner == CacheUser.owner.id)
    #expect(try await root.load("key", as: .owner) == "of the superuser")
  }

  /// P3: users with only read permission can load, but change nothing.
  @Test(arguments: [CacheUser.member, .stranger]) func readersOfAReadableRootLoadAndChangeNothing(
    user: CacheUser
  ) async throws {
    let root = try SharedRoot(0o755)
    try await root.store("payload", for: "key", as: .owner)
    #expect(try await root.load("key", as: user) == "payload")
    #expect(try await root.usage(as: user)["records"] == 1)
    for verb in ["store", "remove", "lock"] {
      let run = try await root.run(as: user, verb, "DIR", "key", input: "forged")
      #expect(run.status == 2, "\(verb)")
    }
    #expect(try await root.load("key", as: .owner) == "payload")
  }

  /// A removal cannot be undone, so it is reported even if the rest fails.
  @Test(arguments: [["--all"], ["--unlocked"], ["a1", "b1"]])
  func whatWasRemovedIsToldThoughTheRestFails(arguments: [String]) async throws {
    let root = try SharedRoot(0o700)
    for key in ["a1", "b1"] { try await root.store("1", for: key, as: .owner) }
    try root.setMode(0o500, of: "js")
    let run = try await root.tool.run(
      arguments: ["remove", "--purge", "cache"] + arguments, wrapper: CacheUser.owner.wrapper())
    #expect(run.status == 2, "\(run.text)\(run.error)")
    #expect(run.error.hasPrefix("blobcache: remove"), "\(run.error)")
    #expect(run.text.hasPrefix(arguments.count == 2 ? "a1: removed\n" : "cache: 1 file removed, 65 B\n"), "\(run.text)")
    #expect(root.state("97/a1") == nil && root.state("js/b1") != nil)
  }

  /// A pass that could not remove its records has failed.
  @Test func aCollectionThatMayRemoveNothingFails() async throws {
    let root = try SharedRoot(0o700)
    try await root.store("1", for: "key", as: .owner, "--ttl", "1m")
    try root.setMode(0o500, of: "7c")
    let run = try await root.run(as: .owner, "collect", "DIR", now: Tool.now + 100)
    #expect(run.status == 2, "\(run.text)\(run.error)")
    #expect(run.text.contains("1 could not be read or removed"), "\(run.text)")
    #expect(run.error.contains("Permission denied"), "\(run.error)")
  }

  /// Spec/ControlFile.md, "Who may write to it": a user that can only read takes no lock that a change waits for,
  /// before the control file is created and later.
  @Test(arguments: [(.member, 0o755), (.stranger, 0o755), (.member, 0o750)] as [(CacheUser, mode_t)])
  func readersKeepNobodyOut(user: CacheUser, mode: mode_t) async throws {
    let root = try SharedRoot(mode)
    let directory = try root.descriptor(of: "", as: user)
    defer { try? directory.close() }
    // It waits, because a program that another test starts shares the lock of the settings' change until it is executed.
    try SharedRoot.require(flock(directory.rawValue, LOCK_EX), "flock")
    try await root.store("payload", for: "key", as: .owner)
    #expect(try root.refusal(toOpen: ".blobcache", O_RDONLY, as: user) == .permissionDenied)
    let collect = try await root.run(as: .owner, "collect", "DIR")
    #expect(collect.status == 0, "\(collect.error)")
    try await root.store("again", for: "key", as: .superuser)
    #expect(try await root.load("key", as: user) == "again")
  }

  /// Spec/ControlFile.md: the next change removes readers' access to a control file of an earlier version.
  @Test func aControlFileThatReadersMayOpenIsShutToThem() async throws {
    let root = try SharedRoot(0o755)
    try await root.store("payload", for: "key", as: .owner)
    try root.setMode(0o644, of: ".blobcache")
    #expect(try root.refusal(toOpen: ".blobcache", O_RDONLY, as: .stranger) == nil)
    try await root.store("payload", for: "key", as: .superuser)
    #expect(try root.refusal(toOpen: ".blobcache", O_RDONLY, as: .stranger) == .permissionDenied)
    #expect(root.state(".blobcache")?.owner == CacheUser.owner.id)
    try await root.store("again", for: "key", as: .owner)
  }

  /// L4: readers of a readable root can list, count and verify all records.
  @Test(arguments: [CacheUser.member, .stranger]) func readersLookAtEverything(user: CacheUser) async throws {
    let root = try SharedRoot(0o755)
    try await root.store("payload", for: "key", as: .owner)
    let before = root.state(".blobcache")
    for verb in ["list", "usage", "verify"] {
      let run = try await root.run(as: user, verb, "DIR")
      #expect(run.status == 0, "\(verb): \(run.error)")
    }
    #expect(root.state(".blobcache") == before)
  }
}
