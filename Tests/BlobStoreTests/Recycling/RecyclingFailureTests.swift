#if os(Linux)
  import BlobRecord
  import BlobStore
  import Foundation
  import Posix
  import SystemPackage
  import TestSupport
  import Testing

  #if canImport(Glibc)
    import Glibc
  #elseif canImport(Musl)
    import Musl
  #elseif canImport(Android)
    import Android
  #endif

  /// Spec/Semantics.md, B9: failures of the recycling bin, and changes by others between two calls, cost only speed.
  @Suite struct RecyclingFailureTests {
    let cache: Cache
    let trace = CallTrace()
    let store: BlobStore

    init() throws {
      cache = try Cache()
      store = try cache.store(files: trace.files)
      // The bin contains a file of the size that is stored.
      try store.store(payload(1000), for: RecyclingBench.dead)
      try store.remove(RecyclingBench.dead)
    }

    private func inode(_ file: String) throws -> UInt64? { try cache.state(file)?.inode }

    private var recycledFiles: Int { get throws { Int(try cache.store().usage().recycledFiles) } }

    private func refuse(_ call: SystemCall, _ errno: Errno, at part: String = "/") {
      trace.onCall { found, path in found == call && path.string.contains(part) ? .fail(errno) : nil }
    }

    /// The kernel or file system has no `renameat2`, or does not support one of its flags.
    @Test(arguments: [true, false]) func filesAreRecycledWithoutExchange(replaces: Bool) throws {
      if replaces { try store.store(payload(50_000), for: "key") }
      let dead = try inode(".recycled/" + #require(cache.names(in: ".recycled").first))
      trace.onCall { call, _ in
        call == .renameExchange || call == .renameNoReplace ? .fail(.invalidArgument) : nil
      }
      try store.store(payload(900, 2), for: "key")
      trace.onCall(nil)
      #expect(try store.load("key")?.payload == payload(900, 2))
      if !replaces { #expect(try inode("ke/key") == dead) }
      #expect(try store.verify().damagedFiles == 0)
    }

    /// A new file is created if the bin is on another volume, or if the kernel has revoked the lease.
    @Test(
      arguments: [
        (.renameNoReplace, .improperLink), (.renameExchange, .improperLink), (.lease, .resourceTemporarilyUnavailable),
      ] as [(SystemCall, Errno)]) func aPublicationThatFailsIsMadeWithANewFile(call: SystemCall, errno: Errno) throws
    {
      if call == .renameExchange { try store.store(payload(50_000), for: "key") }
      let calls = CallCount()
      trace.onCall { found, _ in
        guard found == call else { return nil }
        calls.add(1)
        // The first call for a lease acquires it.
        return calls.value == (call == .lease ? 2 : 1) ? .fail(errno) : nil
      }
      try store.store(payload(900, 2), for: "key")
      trace.onCall(nil)
      #expect(calls.value > 0)
      #expect(try store.load("key")?.payload == payload(900, 2))
      #expect(try store.verify().damagedFiles == 0)
    }

    /// The file system does not support names as long as those in the bin.
    @Test func namesThatAreTooLongTurnRecyclingOff() throws {
      for key: BlobKey in ["a", "b"] { try store.store(payload(50_000), for: key) }
      refuse(.rename, .fileNameTooLong, at: ".recycled")
      #expect(try store.remove("a") == .done)
      _ = trace.take()
      #expect(try store.remove("b") == .done)
      #expect(trace.count(.rename) == 0)
      #expect(trace.count(.unlink) == 1)
      #expect(try recycledFiles == 1)
    }

    /// A bin that may not be changed, although its files may be written to, is no longer used.
    @Test(arguments: [true, false]) func filesThatMayNotBeTakenOutAreLeft(replaces: Bool) throws {
      if replaces { try store.store(payload(50_000), for: "key") }
      let trace = trace
      trace.onCall { call, _ in
        guard [.rename, .renameExchange, .renameNoReplace].contains(call) else { return nil }
        trace.onCall(nil)
        return .fail(.permissionDenied)
      }
      try store.store(payload(900, 2), for: "key")
      #expect(try store.load("key")?.payload == payload(900, 2))
      _ = trace.take()
      try store.store(payload(900, 3), for: "key")
      #expect(try store.load("key")?.payload == payload(900, 3))
      #expect(trace.count(.lease) == 0)
      #expect(try cache.store().verify().damagedFiles == 0)
    }

    @Test func exchangeThatFailsLeavesTheOldBlob() throws {
      try store.store(payload(50_000), for: "key")
      refuse(.renameExchange, .ioError)
      #expect(expect(.fileSystem) { try store.store(payload(900, 2), for: "key") }?.errno == .ioError)
      trace.onCall(nil)
      #expect(try store.load("key")?.payload == payload(50_000))
      let counted = try store.usage()
      try store.store(payload(900, 2), for: "key")
      #expect(try store.load("key")?.payload == payload(900, 2))
      #expect(try store.usage().records == counted.records)
    }

    /// Another program, which does not hold the key, creates a file at the path of a new record after the store has
    /// checked the path. The store checks again, and replaces the file as it would have done before.
    @Test func nameThatAnotherProgramTakesAfterTheLookIsReplacedByANewFile() throws {
      // A store checks the path first if the previous store replaced something.
      for seed: UInt64 in 1...2 { try store.store(payload(50_000, seed), for: "other") }
      let recycled = try recycledFiles
      let path = cache.path("ke/key")
      trace.onCall { call, _ in
        guard call == .renameNoReplace else { return nil }
        #expect(FileManager.default.createFile(atPath: path, contents: Data("somebody's".utf8)))
        return nil
      }
      try store.store(payload(900), for: "key")
      trace.onCall(nil)
      #expect(try store.load("key")?.payload == payload(900))
      #expect(try recycledFiles == recycled)
      #expect(try store.usage().records == 2)
      #expect(try store.verify().damagedFiles == 0)
    }

    /// Without a prior check, the other program's file is treated as the old record.
    @Test func nameThatSomebodyTookIsReplaced() throws {
      let path = cache.path("ke/key")
      trace.onCall { call, _ in
        guard call == .renameNoReplace else { return nil }
        #expect(FileManager.default.createFile(atPath: path, contents: Data("somebody's".utf8)))
        return nil
      }
      try store.store(payload(900), for: "key")
      trace.onCall(nil)
      #expect(try store.load("key")?.payload == payload(900))
      #expect(try store.usage().records == 1)
      #expect(try store.verify().damagedFiles == 0)
    }

    /// A record found late at the path may be locked, so its successor must not stay in a recycled file.
    @Test func lockedRecordThatIsFoundLateIsReplacedDurably() throws {
      let store = try cache.store(files: trace.files) { $0.durability = .automatic }
      try store.store(payload(10), for: "key", locks: .one)
      try store.store(payload(50_000), for: "other")
      let dead = try inode(".recycled/" + #require(cache.names(in: ".recycled").first))
      _ = trace.take()
      try store.store(payload(900), for: "key")
      #expect(trace.count(.renameNoReplace) == 1)
      #expect(trace.count(.sync) > 0)
      #expect(try inode("ke/key") != dead)
      #expect(try store.load("key")?.payload == payload(900))
    }

    @Test(arguments: [true, false]) func recordThatSomebodyElseRemovesIsNotFound(purging: Bool) throws {
      try store.store(payload(10), for: "key")
      let path = cache.path("ke/key")
      trace.onCall { call, _ in
        guard call == .rename || call == .unlink else { return nil }
        // The file exists only the first time.
        try? FileManager.default.removeItem(atPath: path)
        return nil
      }
      #expect(try store.remove("key", purging: purging) == .notFound)
      trace.onCall(nil)
      #expect(try store.usage().records == 0)
    }

    @Test func wipeReportsABinThatCannotBeListed() throws {
      try store.store(payload(10), for: "key")
      refuse(.listDirectory, .ioError, at: "/.recycled")
      #expect(expect(.fileSystem) { try store.removeAll(.all) }?.errno == .ioError)
      trace.onCall(nil)
      #expect(try store.usage().records == 0)
      try store.removeAll(.all)
      #expect(try recycledFiles == 0)
    }

    /// If two threads open the bin concurrently, one descriptor is used.
    @Test func binIsOpenedOnce() throws {
      try FileManager.default.removeItem(atPath: cache.path(".recycled"))
      let store = try cache.store(files: trace.files)
      try store.store(payload(10), for: "other")
      try store.store(payload(10), for: "key")
      let trace = trace
      trace.onCall { call, path in
        guard call == .openDirectory, path.lastComponent == ".recycled" else { return nil }
        trace.onCall(nil)
        #expect(throws: Never.self) { try store.remove("other") }
        return nil
      }
      try store.remove("key")
      trace.onCall(nil)
      #expect(try recycledFiles == 2)
    }

    /// A file is recycled only if it has the caller's group.
    @Test(.enabled("needs root") { getuid() == 0 }, arguments: [0, 4321] as [gid_t])
    func fileOfTheCallersGroupIsRecycled(group: gid_t) throws {
      let name = try #require(cache.names(in: ".recycled").first)
      let dead = try inode(".recycled/" + name)
      let shared = try cache.store()
      // The directory belongs to a group that is not the caller's default group; existing files predate that.
      try check(chown(cache.root.string, 0, 1234), "chown")
      try check(chown(cache.path(".recycled/" + name), 0, group), "chown")
      try shared.store(payload(1), for: "first")
      try shared.store(payload(900), for: "key")
      #expect(try (inode("ke/key") == dead) == (group == 0))
    }

    /// A directory owned by another user is not used as the bin.
    @Test(.enabled("needs root") { getuid() == 0 }) func binOfAnotherUserIsLeftAlone() throws {
      let name = try #require(cache.names(in: ".recycled").first)
      try check(chown(cache.path(".recycled"), 4321, 4321), "chown")
      let other = try cache.store()
      for key: BlobKey in ["first", "key"] { try other.store(payload(900), for: key) }
      try other.remove("key")
      #expect(try cache.names(in: ".recycled") == [name])
    }
  }

  extension Cache {
    fileprivate func names(in directory: String) throws -> [String] {
      try FileManager.default.contentsOfDirectory(atPath: path(directory)).sorted()
    }
  }
#endif
