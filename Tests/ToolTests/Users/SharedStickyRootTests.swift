import BlobRecord
import BlobStore
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

/// Spec/Semantics.md, P3, P13 and P14, and Spec/ControlFile.md, "Who may write to it": a root in which all users can
/// create names, but cannot remove other users' names.
@Suite(.enabled(if: CacheUser.areAvailable, CacheUser.requirement), .timeLimit(.minutes(30)))
struct SharedStickyRootTests {
  private func root() throws -> SharedRoot { try SharedRoot(0o1777) }

  /// P3: a user cannot write to, move or remove another user's files.
  @Test(arguments: CacheUser.allCases) func nothingIsWritableForAnother(writer: CacheUser) async throws {
    let root = try root()
    try await root.store("payload", for: "key", as: writer)
    try await root.store("payload", for: "k", as: writer)
    #expect(root.state("ke")?.mode == 0o1777)
    for file in ["ke/key", "k"] { #expect(root.state(file)?.mode == 0o644) }
    // For other users, a record of the superuser belongs to the root's owner.
    let files = try #require(root.state("ke/key"))
    for user in CacheUser.allCases where user != .superuser && user.id != files.owner {
      for file in ["ke/key", "k"] {
        #expect(try root.refusal(toOpen: file, O_WRONLY, as: user) == .permissionDenied)
        // The owner of a sticky directory can rename its files.
        if user == .owner { continue }
        #expect(try root.refusal(toRename: file, to: file + "2", as: user) == .notPermitted)
        #expect(try root.refusal(toRemove: file, as: user) == .notPermitted)
      }
      #expect(try root.refusal(toRename: "ke", to: "other", as: user) == (user == .owner ? nil : .notPermitted))
      if user == .owner { try SharedRoot.require(rename(root.path("other"), root.path("ke")), "rename") }
    }
  }

  /// Users find only their own blobs and blobs of the root's owner, which include the superuser's.
  @Test(arguments: CacheUser.allCases, CacheUser.allCases)
  func recordsAreTheOwnOnesAndTheRootsOwners(writer: CacheUser, reader: CacheUser) async throws {
    let root = try root()
    try await root.store("payload", for: "key", as: writer)
    let isFound = [.superuser, .owner].contains(writer) || writer == reader
    #expect(try await root.load("key", as: reader) == (isFound ? "payload" : nil))
    let usage = try await root.usage(as: reader)
    #expect(usage["records"] == (isFound ? 1 : 0))
    #expect(usage["foreignFiles"] == (isFound ? 0 : 1))
    let list = try await root.run(as: reader, "list", "DIR")
    #expect(list.status == 0)
    #expect(list.text.contains("key") == isFound)
    let verify = try await root.run(as: reader, "verify", "DIR")
    #expect(verify.status == 0)
    // A foreign record remains, and the kernel protects a record that is found but belongs to another user.
    let store = try await root.run(as: reader, "store", "DIR", "key", input: "other")
    let mayReplace =
      writer == reader || [.superuser, .owner].contains(writer) && [.superuser, .owner].contains(reader)
    #expect(store.status == (mayReplace ? 0 : 2), "\(store.error)")
    let remove = try await root.run(as: reader, "remove", "DIR", "key")
    #expect(remove.status == (mayReplace ? 0 : isFound ? 2 : 1), "\(remove.error)")
    // A record that is found but cannot be changed is a failed removal.
    let isKept = isFound && !mayReplace
    let collect = try await root.run(as: reader, "collect", "--json", "DIR", now: Tool.now + 100_000)
    #expect(try collect.objects().first?["failed"] == (isKept ? 1 : 0), "\(collect.text)\(collect.error)")
    let wipe = try await root.run(as: reader, "remove", "--unlocked", "DIR")
    #expect(wipe.status == (isKept ? 2 : 0), "\(wipe.error)")
    #expect(try await root.load("key", as: writer) == (mayReplace ? nil : "payload"))
  }

  /// Tests the operations that write headers, and `dump` and `import`.
  @Test(arguments: CacheUser.allCases, CacheUser.allCases)
  func headersAreWrittenByThoseWhoMay(writer: CacheUser, reader: CacheUser) async throws {
    let root = try root()
    try await root.store("payload", for: "key", as: writer)
    let isFound = [.superuser, .owner].contains(writer) || writer == reader
    let mayChange = writer == reader || [.superuser, .owner].contains(writer) && [.superuser, .owner].contains(reader)
    for verb in ["touch", "lock", "unlock"] {
      let run = try await root.run(as: reader, verb, "DIR", "key", now: Tool.now + 10)
      #expect(run.status == (mayChange ? 0 : isFound ? 2 : 1), "\(verb): \(run.error)")
    }
    let dump = try await root.run(as: reader, "dump", "--json", "cache/ke/key")
    #expect(dump.status == 0, "\(dump.error)")
    #expect(try dump.objects().first?["updateTime"] == .integer(Tool.now + (mayChange ? 10 : 0)))
    try root.tool.create("source/key", "imported")
    try root.tool.create("source/other", "imported")
    for (file, mode) in [("source", 0o755), ("source/key", 0o644), ("source/other", 0o644)] as [(String, mode_t)] {
      try SharedRoot.require(chmod(root.tool.directory.url(file).path, mode), "chmod")
    }
    let imported = try await root.run(as: reader, "import", "--json", "DIR", "source")
    let sums = try #require(try imported.objects().last)
    #expect(sums["imported"] == 1 && sums["present"] == (isFound ? 1 : 0), "\(imported.text)\(imported.error)")
    #expect(try await root.load("other", as: reader) == "imported")
  }

  /// P13: a record that was created while writable by all users is not trusted.
  @Test(arguments: [CacheUser.superuser, .owner]) func aForgedRecordIsNotLoaded(victim: CacheUser) async throws {
    let root = try root()
    try await root.store("payload", for: "key", as: victim)
    // Earlier versions created such files.
    try root.setMode(0o666, of: "ke/key")
    let (forged, target) = (try #require(try await forgery(of: "key")), root.path("ke/key"))
    try CacheUser.stranger.act {
      let file = try FileDescriptor.open(target, .writeOnly)
      defer { try? file.close() }
      try file.writeAll(forged)
    }
    for user in CacheUser.allCases {
      let run = try await root.run(as: user, "load", "DIR", "key")
      #expect(run.status == 2 || run.status == 1)
      #expect(run.output.isEmpty)
      #expect(run.error.contains("writableByOthers"), "\(user): \(run.error)")
    }
    let verify = try await root.run(as: victim, "verify", "DIR")
    #expect(verify.status == 1)
    try await root.store("new", for: "key", as: victim)
    #expect(try await root.load("key", as: .stranger) == "new")
    // In a subdirectory that all users can write, the stranger can replace the file, but not by a file of the victim.
    try root.setMode(0o777, of: "ke")
    #expect(try await root.load("key", as: .stranger) == nil)
    #expect(try await root.load("key", as: victim) == nil)
    try await root.store("mended", for: "kexy", as: .owner)
    #expect(try await root.load("key", as: victim) == "new")
  }

  /// Returns the bytes of a valid record of the key, with the same length as the existing one.
  private func forgery(of key: String) async throws -> Data? {
    let path = try RecordLayout(arrangement: .spread).path(for: BlobKey(key))
    let other = try SharedRoot(0o700)
    try await other.store("forgery", for: key, as: .owner)
    return try Data(contentsOf: URL(filePath: other.path(path.relative)))
  }

  /// Plants a control file in another user's directory, and the configuration of a program with the size limit 1.
  private func plantControlFile(in root: SharedRoot, as user: CacheUser) throws {
    let other = try TemporaryDirectory()
    var configuration = BlobStore.Configuration()
    configuration.limits.size = 1
    configuration.limits.collectsOnStore = false
    let store = try BlobStore(directory: other.path, configuration: configuration)
    #expect(try store.lock("key") == .notFound)
    #expect(try BlobStore.recordedConfiguration(of: other.path).sizeLimit == .atMost(1))
    for name in [".blobcache", ".blobcache.used"] {
      try root.plant(name, Array(try Data(contentsOf: other.url(name))), mode: 0o666, as: user)
    }
  }

  /// Programs lock a planted control file but do not trust it or a planted configuration, which evicts nothing, and
  /// truncating the control file is harmless.
  @Test(arguments: [CacheUser.superuser, .owner, .member])
  func aPlantedControlFileDoesNoHarm(victim: CacheUser) async throws {
    let root = try root()
    try plantControlFile(in: root, as: .stranger)
    let store = try await root.run(as: victim, "store", "--ttl", "0", "DIR", "key", input: "payload")
    #expect(store.status == 0 && store.error == "", "\(store.error)")
    let collect = try await root.run(as: victim, "collect", "DIR")
    #expect(collect.status == 0)
    #expect(try await root.load("key", as: victim) == "payload")
    let control = root.path(".blobcache")
    for byteCount in [0, 5000] as [off_t] {
      try CacheUser.stranger.act { try SharedRoot.require(truncate(control, byteCount), "truncate") }
      for verb in ["list", "usage", "verify", "collect"] {
        let run = try await root.run(as: victim, verb, "DIR")
        #expect(run.status == 0, "\(verb): \(run.error)")
      }
      try await root.store("again", for: "key", as: victim)
      #expect(try await root.load("key", as: victim) == "again")
    }
    #expect(root.state(".blobcache")?.owner == CacheUser.stranger.id)
  }

  /// P14, F3, G4: a stranger's file under one of the cache's names is foreign, and causes no eviction.
  @Test(arguments: [CacheUser.superuser, .owner, .member], [".quarantine", ".recycled"])
  func aPlantedDirectoryDoesNoHarm(victim: CacheUser, name: String) async throws {
    let root = try root()
    try root.plantDirectory(name, mode: 0o777, as: .stranger)
    try root.plant(name + "/large", [1], byteCount: 1 << 40, as: .stranger)
    try root.plant(".tmp-1", [1], as: .stranger)
    try await root.store("payload", for: "key", as: victim)
    let usage = try await root.usage(as: victim)
    #expect(usage["bytes"] == 71)
    #expect(usage["quarantinedBytes"] == 0)
    #expect(usage["recycledBytes"] == 0)
    #expect(usage["temporaryFiles"] == 0)
    #expect(usage["foreignFiles"] == 2)
    let collect = try await root.run(as: victim, "collect", "--size-limit", "1MiB", "DIR")
    #expect(collect.status == 0)
    #expect(try await root.load("key", as: victim) == "payload")
    #expect(root.state(name + "/large")?.byteCount == 1 << 40)
    #expect(root.state(".tmp-1") != nil)
  }

  /// P14: a stranger can occupy a subdirectory's name; the message then contains its owner.
  @Test(arguments: [CacheUser.superuser, .owner, .member])
  func aPlantedSubdirectoryIsSaidToBeAnothers(victim: CacheUser) async throws {
    let root = try root()
    try root.plantDirectory("ke", mode: 0o777, as: .stranger)
    let store = try await root.run(as: victim, "store", "DIR", "key", input: "payload")
    #expect(store.status == 2)
    #expect(store.error.contains("it belongs to user \(CacheUser.stranger.id)"), "\(store.error)")
    #expect(try await root.load("key", as: victim) == nil)
    #expect(try await root.usage(as: victim)["foreignFiles"] == 1)
  }
}
