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

/// Spec/Semantics.md, P4, P11 and P12: a cache that a group shares. Members and strangers use it in separate
/// processes, with every operation and in both directions.
@Suite(.enabled(if: CacheUser.areAvailable, CacheUser.requirement), .timeLimit(.minutes(30)))
struct GroupSharingTests {
  /// The mode of a root, and the users that store and access its records.
  struct Case: CustomTestStringConvertible {
    let mode: mode_t
    let first: CacheUser
    let second: CacheUser
    /// A Boolean value that indicates whether the users have private primary groups in addition to the shared one.
    let ownGroup: Bool
    /// The root's owner, which is one of the two users or neither.
    let rootOwner: CacheUser

    var testDescription: String {
      "\(String(mode, radix: 8)) of \(rootOwner): \(first) \(second) \(ownGroup ? "own groups" : "one group")"
    }
  }

  static let cases: [Case] = [0o770, 0o2770, 0o775, 0o2775].flatMap { (mode: mode_t) in
    [(CacheUser.owner, CacheUser.member), (.member, .owner)].flatMap { first, second in
      [false, true].flatMap { ownGroup in
        [CacheUser.owner, .superuser].map {
          Case(mode: mode, first: first, second: second, ownGroup: ownGroup, rootOwner: $0)
        }
      }
    }
  }

  /// P11, P4, P3.
  @Test(arguments: cases) func everyVerbWorksOnTheRecordsOfTheOther(_ item: Case) async throws {
    let root = try SharedRoot(item.mode, owner: item.rootOwner)
    func run(
      _ user: CacheUser, _ arguments: String..., input: String = "", now: Int64 = Tool.now
    ) async throws -> Tool.Run {
      let run = try await root.tool.run(
        arguments: arguments, now: now, input: Data(input.utf8), wrapper: user.wrapper(ownGroup: item.ownGroup))
      #expect(run.status == 0, "\(user) \(arguments): \(run.text)\(run.error)")
      #expect(run.error == "", "\(user) \(arguments)")
      return run
    }
    func first(_ key: String, _ options: String...) async throws {
      let run = try await root.tool.run(
        arguments: ["store"] + options + ["cache", key], input: Data("first".utf8),
        wrapper: item.first.wrapper(ownGroup: item.ownGroup))
      #expect(run.status == 0, "\(run.error)")
    }

    try await first("key")
    let files = item.mode & 0o666
    for name in [".blobcache", "7c/key", "7c"] {
      let state = try #require(root.state(name))
      #expect(state.owner == item.first.id && state.group == CacheUser.sharedGroup, "\(name): \(state)")
      // Users with only read permission get no access to the control file, because its locks are not for them.
      let mode = name == "7c" ? item.mode : name == ".blobcache" ? files & 0o660 : files
      #expect(state.mode == mode, "\(name): \(state)")
    }
    #expect(try await run(item.second, "load", "cache", "key", now: Tool.now + 10).text == "first")
    _ = try await run(item.second, "touch", "cache", "key", now: Tool.now + 20)
    let list = try await run(item.first, "list", "--json", "--prefix", "ke", "cache").objects()
    #expect(list.map { $0["updateTime"] } == [.integer(Tool.now + 20)])
    _ = try await run(item.second, "lock", "cache", "key")
    _ = try await run(item.first, "unlock", "cache", "key")
    _ = try await run(item.second, "dump", "cache/7c/key")
    _ = try await run(item.second, "store", "--ttl", "0", "cache", "key", input: "second")
    #expect(root.state("7c/key")?.owner == item.second.id)
    #expect(root.state("7c/key")?.group == CacheUser.sharedGroup)
    #expect(try await run(item.first, "load", "cache", "key").text == "second")
    _ = try await run(item.first, "remove", "cache", "key")

    try await first("a")
    try await first("b", "--ttl", "60")
    try await first("c", "--locked")
    let usage = try #require(try await run(item.second, "usage", "--json", "cache").objects().first)
    #expect(usage["records"] == 3 && usage["foreignFiles"] == 0 && usage["lockedRecords"] == 1)
    _ = try await run(item.first, "collect", "cache")
    _ = try await run(item.second, "usage", "--fast", "cache")
    let report = try #require(try await run(item.second, "verify", "--json", "cache").objects().first)
    #expect(report["soundRecords"] == 3 && report["foreignFiles"] == 0)
    let pass = try #require(
      try await run(item.second, "collect", "--json", "--count-limit", "1", "cache", now: Tool.now + 100).objects()
        .first)
    #expect(pass["expired"] == 1 && pass["evicted"] == 1 && pass["failed"] == 0 && pass["recordsAfter"] == 1)
    _ = try await run(item.second, "remove", "--all", "cache")

    try await first("key")
    try root.tool.create("source/key", "imported")
    try root.tool.create("source/new", "imported")
    // The process may have any umask.
    for (file, mode) in [("source", 0o755), ("source/key", 0o644), ("source/new", 0o644)] as [(String, mode_t)] {
      try SharedRoot.require(chmod(root.tool.directory.url(file).path, mode), "chmod")
    }
    let imported = try #require(try await run(item.second, "import", "--json", "cache", "source").objects().last)
    #expect(imported["present"] == 1 && imported["imported"] == 1)
    #expect(try await run(item.first, "load", "cache", "new").text == "imported")

    try root.tool.damage("cache/7c/key", at: 56)
    let repair = try await root.run(
      as: item.second, "verify", "--repair", "quarantine", "--json", "DIR", ownGroup: item.ownGroup)
    #expect(repair.status == 1 && repair.error == "")
    #expect(root.state(".quarantine")?.mode == item.mode)
    #expect(root.state(".quarantine/key")?.owner == item.first.id)
    _ = try await run(item.first, "remove", "--all", "cache")
    #expect(root.state(".quarantine/key") == nil)
  }

  /// P11, B3: another member's files are not recycled. Those in the bin count and may be unlinked, but are not reused.
  @Test(arguments: cases.filter { $0.mode == 0o2770 }) func theBinIsShared(_ item: Case) async throws {
    let root = try SharedRoot(item.mode, owner: item.rootOwner)
    try await root.store("first", for: "key", as: item.first)
    try root.plantDirectory(".recycled", mode: 0o2770, as: item.first)
    func recycled() async throws -> JSONValue? { try await root.usage(as: item.first)["recycledFiles"] }
    try await root.store("first", for: "key2", as: item.first)
    #expect(try await root.run(as: item.second, "remove", "DIR", "key2").status == 0)
    #expect(try await recycled() == 0)
    #expect(try await root.run(as: item.first, "remove", "DIR", "key").status == 0)
    #expect(try await recycled() == 1)
    try await root.store("second", for: "key", as: item.second)
    #expect(try await root.load("key", as: item.first) == "second")
    #expect(try await recycled() == 1)
    #expect(try await root.run(as: item.second, "collect", "--empty-bin", "DIR").status == 0)
    #expect(try await recycled() == 0)
  }

  /// P11: counts and limits include the records of all members, and a store may evict any member's records.
  @Test(arguments: cases.filter { $0.mode == 0o2770 }) func limitsSeeTheRecordsOfAll(_ item: Case) async throws {
    let root = try SharedRoot(item.mode, owner: item.rootOwner)
    for index in 0..<6 {
      let user = index.isMultiple(of: 2) ? item.first : item.second
      let run = try await root.run(
        as: user, "store", "DIR", "key\(index)", now: Tool.now + Int64(index), input: "payload", ownGroup: item.ownGroup
      )
      #expect(run.status == 0, "\(run.error)")
    }
    for user in [item.first, item.second, .superuser] { #expect(try await root.usage(as: user)["records"] == 6) }
    let pass = try await root.run(
      as: item.second, "collect", "--json", "--count-limit", "3", "DIR", now: Tool.now + 10, ownGroup: item.ownGroup)
    let report = try #require(try pass.objects().first)
    #expect(report["evicted"] == 3 || report["evicted"] == 4)
    #expect(report["failed"] == 0)
    // The oldest records were evicted, regardless of their owner.
    for file in ["ek/key0", "s7/key1", "9q/key2"] { #expect(root.state(file) == nil) }
    #expect(root.state("5r/key5") != nil)
  }

  /// P11: no member can make a key unusable for the others by a lock, by damage, or by a file that only the member
  /// can read.
  @Test(arguments: cases.filter { $0.mode == 0o770 || $0.mode == 0o2770 })
  func noMemberTakesAKeyFromTheOthers(_ item: Case) async throws {
    let root = try SharedRoot(item.mode, owner: item.rootOwner)
    func run(_ user: CacheUser, _ arguments: String..., input: String = "") async throws -> Tool.Run {
      try await root.tool.run(
        arguments: arguments, input: Data(input.utf8), wrapper: user.wrapper(ownGroup: item.ownGroup))
    }
    func expectTheSecondHasIt(_ key: String) async throws {
      let store = try await run(item.second, "store", "cache", key, input: "second")
      #expect(store.status == 0, "\(store.error)")
      #expect(try await run(item.first, "load", "cache", key).text == "second")
      #expect(try await run(item.second, "load", "cache", key).text == "second")
    }
    for key in ["kept", "locked", "damaged", "private"] {
      let store = try await run(item.first, "store", "cache", key, input: "first")
      #expect(store.status == 0, "\(store.error)")
    }
    try await expectTheSecondHasIt("kept")
    #expect(try await run(item.first, "lock", "cache", "locked").status == 0)
    try await expectTheSecondHasIt("locked")
    #expect(try await run(item.first, "lock", "cache", "locked").status == 0)
    #expect(try await run(item.second, "remove", "cache", "locked").status == 0)
    try await expectTheSecondHasIt("locked")
    try root.tool.damage("cache/tc/damaged", at: 56)
    try await expectTheSecondHasIt("damaged")
    try root.setMode(0o600, of: "7c/private")
    let refused = try await run(item.second, "load", "cache", "private")
    #expect(refused.status == 2 && refused.error.contains("Permission denied"))
    #expect(try await run(item.second, "remove", "cache", "private").status == 0)
    try await expectTheSecondHasIt("private")
  }

  /// P11, P5: a user outside the groups of root and files reads everything that the mode allows all users to read.
  @Test func strangersReadWhatTheModeLetsThem() async throws {
    let root = try SharedRoot(0o2775)
    try await root.store("owner's", for: "a", as: .owner)
    try await root.store("member's", for: "b", as: .member)
    #expect(try await root.load("a", as: .stranger) == "owner's")
    #expect(try await root.load("b", as: .stranger) == "member's")
    for verb in ["store", "remove", "lock"] {
      #expect(try await root.run(as: .stranger, verb, "DIR", "b").status == 2, "\(verb)")
    }
    let private_ = try SharedRoot(0o2770)
    try await private_.store("member's", for: "b", as: .member)
    #expect(try await private_.run(as: .stranger, "load", "DIR", "b").status == 2)
  }

  /// P12: in a directory where users control only their own files, other users' records are reported and counted.
  @Test(arguments: [CacheUser.owner, .member]) func foreignRecordsSayWhoseTheyAre(user: CacheUser) async throws {
    // All users trust the owner's files, so these files belong to the stranger.
    let root = try SharedRoot(0o1777)
    try await root.store("stranger's", for: "key", as: .stranger)
    let belongs = "its file belongs to user \(CacheUser.stranger.id): run as that user, or `chown \(user.id)` the file"
    let load = try await root.run(as: user, "load", "DIR", "key")
    #expect(load.status == 1 && load.text == "")
    #expect(load.error == "blobcache: key: not found\nblobcache: key: \(belongs): cache/ke/key\n")
    for verb in ["touch", "lock", "unlock", "remove"] {
      let run = try await root.run(as: user, verb, "DIR", "key", "absent")
      #expect(run.status == 1)
      #expect(run.text == "key: not found\nabsent: not found\n")
      #expect(run.error == "blobcache: key: \(belongs): cache/ke/key\n", "\(verb)")
    }
    let store = try await root.run(as: user, "store", "DIR", "key", input: "forged")
    #expect(store.status == 2)
    #expect(store.error.contains("is left alone: \(belongs): cache/ke/key"))
    let record: [String: JSONValue] = [
      "type": "foreign", "file": "ke/key", "user": .integer(Int64(CacheUser.stranger.id)), "bytes": 74,
    ]
    let verify = try await root.run(as: user, "verify", "--json", "DIR")
    #expect(verify.status == 0)
    #expect(try verify.objects().first == record)
    let collect = try await root.run(as: user, "collect", "--json", "DIR", now: Tool.now + 1_000_000)
    for objects in [
      [try await root.usage(as: user)], try verify.objects().suffix(1), try collect.objects(),
    ] {
      let object = try #require(objects.first)
      #expect(object["foreignRecords"] == 1 && object["foreignRecordBytes"] == 74)
      #expect(object["foreignRecordUser"] == .integer(Int64(CacheUser.stranger.id)))
    }
    #expect(root.state("ke/key")?.owner == CacheUser.stranger.id)
    #expect(try await root.load("key", as: .stranger) == "stranger's")
  }

  /// P12: a change of owner is reported in one line with a command that repairs it, unless only a few files are
  /// concerned. A subdirectory of the former owner is still read.
  @Test(arguments: [["usage"], ["verify"], ["collect"]]) func aChangeOfOwnerIsToldWithWhatMendsIt(
    command: [String]
  ) async throws {
    let root = try SharedRoot(0o755)
    for key in ["a", "b", "key"] { try await root.store("payload", for: key, as: .owner) }
    for file in ["4c", "4c/a", "d5", "d5/b", "7c", "7c/key"] { try root.give(file, to: .stranger) }
    let run = try await root.run(as: .owner, command[0], "DIR")
    #expect(run.status == 0)
    let mending = "chown -R \(CacheUser.owner.id) cache"
    #expect(
      run.error
        == "blobcache: cache: all 3 files where records would lie belong to others, most to user "
        + "\(CacheUser.stranger.id): run as that user, or `\(mending)`\n")
    #expect(run.text.contains("3"))
    #expect(try await root.run(as: .owner, command[0], "--quiet", "DIR").error == "")
    #expect(try await root.tool.execute(mending.split(separator: " ").map(String.init)).status == 0)
    #expect(try await root.run(as: .owner, command[0], "DIR").error == "")
    #expect(try await root.load("a", as: .owner) == "payload")
    try root.give("4c/a", to: .stranger)
    #expect(try await root.run(as: .owner, command[0], "DIR").error == "")
  }

  /// P12: each operation without permission reports the directory's owner, and how to get access.
  @Test(arguments: [CacheUser.member, .stranger]) func whoIsRefusedIsToldWhoseTheDirectoryIs(
    user: CacheUser
  ) async throws {
    let root = try SharedRoot(0o700)
    try await root.store("payload", for: "key", as: .owner)
    try root.tool.create("source/new", "imported")
    for (file, mode) in [("source", 0o755), ("source/new", 0o644)] as [(String, mode_t)] {
      try SharedRoot.require(chmod(root.tool.directory.url(file).path, mode), "chmod")
    }
    let commands = [
      ["load", "cache", "key"], ["store", "--ttl", "0", "cache", "key"], ["touch", "cache", "key"],
      ["lock", "cache", "key"],
      ["unlock", "cache", "key"], ["remove", "cache", "key"], ["list", "cache"], ["usage", "cache"],
      ["collect", "cache"], ["usage", "--fast", "cache"], ["verify", "cache"],
      ["import", "--ttl", "0", "cache", "source"],
    ]
    func run(_ command: [String]) async throws -> Tool.Run {
      try await root.tool.run(arguments: command, input: Data("payload".utf8), wrapper: user.wrapper())
    }
    let mending = "chown -R \(user.id) cache"
    for command in commands {
      let run = try await run(command)
      #expect(run.status == 2, "\(command)")
      #expect(run.error.contains("Permission denied"), "\(command): \(run.error)")
      #expect(
        run.error.hasSuffix(
          "\nblobcache: cache: belongs to user \(CacheUser.owner.id): run as that user, or `\(mending)`\n"),
        "\(command): \(run.error)")
    }
    #expect(try await root.tool.execute(mending.split(separator: " ").map(String.init)).status == 0)
    for command in commands {
      let run = try await run(command)
      #expect(run.status == 0, "\(command): \(run.error)")
      #expect(run.error == "", "\(command)")
    }
  }

  /// P12: a directory that the superuser has restored, and that other users cannot enter, is reported in each message.
  @Test func whatTheSuperuserHasRestoredIsNamed() async throws {
    let root = try SharedRoot(0o700)
    try await root.store("payload", for: "key", as: .owner)
    for file in [".blobcache", "7c", "7c/key"] { try root.give(file, to: .superuser) }
    try SharedRoot.require(unlink(root.path(".blobcache")), "unlink")
    let mending = "chown -R \(CacheUser.owner.id) cache"
    let line = "blobcache: cache/7c: belongs to user 0: run as that user, or `\(mending)`\n"
    for command in [["usage"], ["verify"], ["list"], ["collect"]] {
      let run = try await root.run(as: .owner, command[0], "DIR")
      #expect(run.error.hasSuffix(line), "\(command): \(run.error)")
    }
    for verb in ["load", "store", "touch", "lock", "unlock", "remove"] {
      let run = try await root.run(as: .owner, verb, "DIR", "key")
      #expect(run.status == 2, "\(verb): \(run.text)")
      #expect(run.error.hasSuffix(line), "\(verb): \(run.error)")
    }
    #expect(try await root.tool.execute(mending.split(separator: " ").map(String.init)).status == 0)
    #expect(try await root.load("key", as: .owner) == "payload")
    // Only the file was changed: the key is not found, and the message contains the file's owner.
    try root.give("7c/key", to: .superuser)
    let load = try await root.run(as: .owner, "load", "DIR", "key")
    #expect(load.status == 1)
    #expect(
      load.error.contains("its file belongs to user 0: run as that user, or `chown \(CacheUser.owner.id)` the file"))
    let store = try await root.run(as: .owner, "store", "DIR", "key")
    #expect(store.status == 2 && store.error.contains("its file belongs to user 0"))
    let usage = try await root.usage(as: .owner)
    #expect(usage["foreignRecords"] == 1 && usage["foreignRecordBytes"] == 71 && usage["unreadableFiles"] == 0)
  }

  /// P1: files that the superuser creates in a user's directory belong to that user.
  @Test func theSuperuserLocksNobodyOutOfTheirDirectory() async throws {
    let home = try SharedRoot(0o755)
    let run = try await home.tool.run("store", "cache/made/new", "key", input: Data("payload".utf8))
    #expect(run.status == 0)
    let load = try await home.tool.run("load", "cache/made/new", "key", wrapper: CacheUser.owner.wrapper())
    #expect(load.text == "payload")
    let store = try await home.tool.run("store", "cache/made/new", "key", wrapper: CacheUser.owner.wrapper())
    #expect(store.status == 0, "\(store.error)")
    for name in ["made", "made/new", "made/new/.blobcache"] {
      #expect(home.state(name)?.owner == CacheUser.owner.id, "\(name)")
      #expect(home.state(name)?.group == CacheUser.sharedGroup, "\(name)")
    }
  }
}
