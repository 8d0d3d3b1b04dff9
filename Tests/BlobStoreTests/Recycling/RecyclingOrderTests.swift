#if os(Linux)
  import BlobRecord
  import BlobStore
  import Foundation
  import Posix
  import SystemPackage
  import TestSupport
  import Testing

  /// Spec/Semantics.md, B10: a file's former content restricts its next one, because a power cut may restore it.
  @Suite struct RecyclingOrderTests {
    let bench: RecyclingBench
    private var cache: Cache { bench.cache }

    init() throws { bench = try RecyclingBench() }

    private func file(_ key: BlobKey) -> String { "\(key.string.prefix(2))/\(key.string)" }

    /// Stores a record, and returns whether a dead file was overwritten for it.
    private func recycles(_ key: BlobKey, with store: BlobStore, byteCount: Int = 1000) throws -> Bool {
      _ = bench.trace.take()
      try store.store(payload(byteCount), for: key)
      return !bench.trace.take().contains { $0.call == .creation && !$0.path.contains("/.recycled/") }
    }

    /// Returns a store that knows only the content of the files in the bin.
    private func newcomer() throws -> BlobStore {
      let store = try bench.store()
      // The first store creates a file, because no file has this size.
      try store.store(payload(50_000), for: "other")
      return store
    }

    private static let keys: [BlobKey] = ["bea", "key", "key2", "first", "cmr"]

    @Test(arguments: keys, keys) func fileHoldsRecordsInAscendingOrder(former: BlobKey, next: BlobKey) throws {
      let store = try newcomer()
      let other = try bench.store()
      _ = try bench.warm(other, key: former)
      let digests = [former, next].map { NameDigest.digest(ofFileName: $0.string) }
      #expect(try recycles(next, with: store) == (digests[0] < digests[1]))
    }

    enum Meanwhile: String, CaseIterable, Sendable {
      case nothing, store, storeFull, storeBarrier, storeLocked, lock, removeFull, seconds
    }

    /// A key reuses its own files alternately, as long as this is equivalent to new files.
    @Test(arguments: Meanwhile.allCases) func keyIsReplacedInItsOwnFiles(meanwhile: Meanwhile) throws {
      let store = try bench.store()
      let other = try cache.store {
        $0.durability =
          switch meanwhile {
          case .storeFull, .removeFull: .full
          case .storeBarrier: .barrier
          case .storeLocked, .lock: .automatic
          default: .none
          }
      }
      try other.store(payload(10_000), for: "other")
      for _ in 0..<2 { try store.store(payload(1000), for: "key") }
      #expect(try recycles("key", with: store))
      switch meanwhile {
      case .nothing: break
      case .store, .storeFull, .storeBarrier: try other.store(payload(10_000), for: "other")
      case .storeLocked: try other.store(payload(10_000), for: "new", locks: .one)
      case .lock: try other.lock("other")
      case .removeFull: try other.remove("other")
      case .seconds: bench.trace.wait(milliseconds: 5050)
      }
      #expect(try recycles("key", with: store) == [.nothing, .store].contains(meanwhile))
      // From here on, the behavior is the same as before.
      try store.store(payload(1000), for: "key")
      #expect(try recycles("key", with: store))
    }

    /// If a durable change occurs while the key's own file is overwritten, the record is stored in a new file,
    /// whether it replaces a file or not.
    @Test(arguments: [true, false]) func durableChangeWhileTheFileIsOverwritten(replaces: Bool) throws {
      let store = try bench.store()
      let other = try cache.store { $0.durability = .full }
      for _ in 0..<(replaces ? 3 : 1) { try store.store(payload(1000), for: "key") }
      if !replaces { try store.remove("key") }
      let (trace, dead) = (bench.trace, try bench.inode(".recycled/" + #require(bench.bin().first)))
      trace.onCall { call, _ in
        guard call == .write else { return nil }
        trace.onCall(nil)
        #expect(throws: Never.self) { try other.store(payload(10), for: "other") }
        return nil
      }
      try store.store(payload(1000, 2), for: "key")
      #expect(try bench.inode("ke/key") != dead)
      #expect(try store.load("key")?.payload == payload(1000, 2))
    }

    /// A durable change during the displacement of the key's own file may reach the medium first. A power cut must
    /// not restore the state before that change with the bytes that the file contains next.
    @Test func durableChangeWhileTheFileIsDisplaced() throws {
      let store = try bench.store()
      let other = try cache.store { $0.durability = .full }
      for _ in 0..<3 { try store.store(payload(1000), for: "key") }
      let trace = bench.trace
      trace.onCall { call, _ in
        guard call == .renameExchange else { return nil }
        trace.onCall(nil)
        #expect(throws: Never.self) { try other.store(payload(10), for: "other") }
        return nil
      }
      #expect(try recycles("key", with: store))
      #expect(try !recycles("key", with: store))
      #expect(try recycles("key", with: store))
    }

    private static let renames: [SystemCall] = [.rename, .renameNoReplace, .renameExchange]

    /// Writes a record to a file of the bin, whose publication fails, and then to a new file.
    private func storeInVain(_ key: BlobKey, with store: BlobStore) throws {
      bench.trace.onCall { call, path in
        Self.renames.contains(call) && path.string.contains(key.string) ? .fail(.ioError) : nil
      }
      #expect(try !recycles(key, with: store))
      bench.trace.onCall(nil)
    }

    /// A process remembers a file that it has moved to the bin. Another process has then written a blob of the key to
    /// it without publishing it. No reader may ever see that blob, so the key does not take this file, even if the
    /// other process wrote so soon that the file has the same modification time.
    @Test(arguments: [10, -10]) func fileThatAnotherProcessHasWrittenToIsNotTheKeysOwn(age: Int64) throws {
      let keys = Self.keys.sorted {
        NameDigest.digest(ofFileName: $0.string) < NameDigest.digest(ofFileName: $1.string)
      }
      let store = try bench.store()
      let other = try newcomer()
      let dead = try bench.warm(store, key: keys[0], age: age)
      let name = ".recycled/" + (try #require(bench.bin().first))
      let modified = try cache.modified(name)
      try storeInVain(keys[1], with: other)
      if age < 0 { try cache.setModified(name, modified) }
      #expect(try bench.inode(name) == dead)
      #expect(try cache.header(name).keyDigest == NameDigest.digest(ofFileName: keys[1].string))
      #expect(try !recycles(keys[1], with: store))
      #expect(try bench.inode(name) == dead)
      // Other keys overwrite files: one takes this file, and another one the file just displaced.
      for key in keys[2...3] { #expect(try recycles(key, with: store)) }
      #expect(try keys[2...3].contains { try bench.inode(file($0)) == dead })
    }

    /// An exchange leaves another file under the name that this process chose, and both may have the same time.
    @Test func fileThatHasTakenTheNameOfTheKeysOwnIsLookedAt() throws {
      let keys = Self.keys.sorted {
        NameDigest.digest(ofFileName: $0.string) < NameDigest.digest(ofFileName: $1.string)
      }
      let (store, other) = (try bench.store(), try bench.store())
      _ = try bench.warm(store, key: keys[0], age: 10)
      let name = ".recycled/" + (try #require(bench.bin().first))
      try other.store(payload(1000), for: keys[2])
      let modified = try cache.modified(name)
      try check(rename(cache.path(file(keys[2])), cache.path(name)), "rename")
      try cache.setModified(name, modified)
      let before = try cache.state(name)
      #expect(try !recycles(keys[1], with: store))
      #expect(try cache.state(name) == before)
    }

    enum Displacement: CaseIterable, Sendable { case removal, replacement, exchange, expiry }

    /// Stores a record and displaces it.
    ///
    /// - Parameter age: Sets the age of the record before the displacement.
    private func displace(_ displacement: Displacement, with store: BlobStore, _ age: (BlobKey) throws -> Void) throws {
      let key = RecyclingBench.dead
      try store.store(payload(1000), for: key, ttl: .seconds(60))
      try age(key)
      switch displacement {
      case .removal: try store.remove(key)
      case .replacement: try store.store(payload(1000), for: key)
      case .exchange:
        try store.store(payload(1000), for: key)
        try age(key)
        try store.store(payload(1000), for: key)
      case .expiry:
        cache.clock.advance(by: 100)
        #expect(try store.collect().expired == 1)
      }
      #expect(try bench.bin().count == 1)
    }

    private func readsBeforeOverwriting(with store: BlobStore) throws -> Bool {
      _ = bench.trace.take()
      try store.store(payload(1000), for: "key")
      let calls = bench.trace.take().map(\.call)
      #expect(calls.contains(.lease))
      #expect(try store.load("key")?.payload == payload(1000))
      return calls.contains(.read)
    }

    /// A process overwrites its own file in the bin without reading it unless another process has written to it.
    @Test(arguments: Displacement.allCases, [10, -10])
    func ownFileIsReadIfItMayHaveBeenWrittenTo(displacement: Displacement, age: Int64) throws {
      let store = try bench.store()
      try displace(displacement, with: store) { try bench.setAge(age, of: $0) }
      #expect(try readsBeforeOverwriting(with: store) == (age < 0))
    }

    /// A time in whole seconds does not identify a write, because it may recur if the clock is set back.
    @Test func ownFileWithATimeInWholeSecondsIsRead() throws {
      let store = try bench.store()
      try displace(.removal, with: store) { try cache.setModified(file($0), SystemClock.unixSeconds() - 10) }
      #expect(try readsBeforeOverwriting(with: store))
    }

    /// Another thread has written to the file: one thread lists the bin while the other one uses the file.
    @Test func fileThatAnotherThreadHasWrittenToIsNotTheKeysOwn() throws {
      let store = try bench.store()
      let other = try bench.store()
      let dead = try bench.warm(store, key: "key")
      _ = try bench.warm(other, 10_000, key: "cmr")
      let trace = bench.trace
      // The store knows no files of this size, so it lists the bin.
      trace.onCall { call, path in
        guard call == .listDirectory, path.string.contains(".recycled") else { return nil }
        #expect(throws: Never.self) { try self.storeInVain("key", with: store) }
        return nil
      }
      try store.store(payload(50_000), for: "large")
      let name = try #require(try bench.bin().map { ".recycled/" + $0 }.first { try bench.inode($0) == dead })
      #expect(try cache.header(name).keyDigest == NameDigest.digest(ofFileName: "key"))
      #expect(try !recycles("key", with: store))
      #expect(try bench.inode(name) == dead)
    }

    /// Without a digest and a checksum, bytes restored by a power cut could pass for the record of another key.
    @Test(arguments: ["remove", "store", "expire"]) func recordWithoutChecksumsIsUnlinked(operation: String) throws {
      let store = try bench.store()
      let reference = try bench.store { $0.format = .reference }
      try reference.store(payload(1000), for: "key", ttl: .seconds(60))
      switch operation {
      case "remove": try store.remove("key")
      case "store": try store.store(payload(1000), for: "key")
      default:
        cache.clock.advance(by: 100)
        #expect(try store.collect().expired == 1)
      }
      #expect(try bench.bin() == [])
    }

    enum Content: String, CaseIterable, Sendable {
      case nothing, zeros, reference, noDigest, noChecksum, locked, damaged
    }

    /// A file in the bin that no store put there is not overwritten.
    @Test(arguments: Content.allCases) func fileOfUnknownPastIsLeft(content: Content) throws {
      _ = try bench.warm(bench.store())
      let name = ".recycled/" + (try #require(bench.bin().first))
      switch content {
      case .nothing: try cache.write([], to: name)
      case .zeros: try cache.write([UInt8](repeating: 0, count: 1064), to: name)
      case .reference:
        try cache.changeHeader(name) {
          $0.keyDigest = nil
          $0.payloadChecksum = nil
        }
      case .noDigest: try cache.changeHeader(name) { $0.keyDigest = nil }
      case .noChecksum: try cache.changeHeader(name) { $0.payloadChecksum = nil }
      case .locked: try cache.changeHeader(name) { $0.refCount = 1 }
      case .damaged: try cache.write([1] + cache.bytes(name).dropFirst(), to: name)
      }
      let before = try cache.state(name)
      let store = try newcomer()
      for byteCount in [10, 1000] { try store.store(payload(byteCount), for: "key") }
      #expect(try cache.state(name) == before)
    }

    /// Returns keys whose digests begin with these six bits, in ascending order of their digests.
    private func ascendingKeys(beginningWith bits: UInt64, count: Int) -> [BlobKey] {
      let all = (0...).lazy.map { BlobKey("key-\($0)") }
      let found = all.filter { NameDigest.digest(ofFileName: $0.string) >> 58 == bits }.prefix(count)
      return found.sorted { NameDigest.digest(ofFileName: $0.string) < NameDigest.digest(ofFileName: $1.string) }
    }

    /// A record overwrites the file with the next lower digest, because the files then serve the most records before
    /// they are used up. This holds with and without files of the record's own first bits.
    @Test(arguments: [20, 21]) func nearestFileIsTaken(bits: UInt64) throws {
      let store = try bench.store()
      let keys = ascendingKeys(beginningWith: 20, count: 5)
      let dead = keys.dropLast()
      let next = try #require(bits == 20 ? keys.last : ascendingKeys(beginningWith: bits, count: 1).last)
      for key in dead { try store.store(payload(1000), for: key) }
      let nearest = try #require(try bench.inode(file(dead[3])))
      for key in [dead[1], dead[3], dead[0], dead[2]] { try store.remove(key) }
      try store.store(payload(1000), for: next)
      #expect(try bench.inode(file(next)) == nearest)
    }

    /// A full bin keeps the files that most records may overwrite.
    @Test func fullBinKeepsLowDigests() throws {
      let store = try bench.store { $0.recycling = .bounded(bytes: 1 << 20, files: 2) }
      for key: BlobKey in ["key", "first", "bea", "cmr"] { try store.store(payload(1000), for: key) }
      let low = try ["ke/key", "be/bea"].map { try #require(try bench.inode($0)) }
      for key: BlobKey in ["first", "cmr", "key", "bea"] { try store.remove(key) }
      #expect(try Set(bench.bin().map { try bench.inode(".recycled/" + $0) }) == Set(low))
      #expect(try store.usage().recycledFiles == 2)
    }

    /// For any sequence of stores to few keys, no file contains a record of a key after one with a higher digest.
    @Test(arguments: [false, true]) func filesAscendWhateverHappens(ages: Bool) throws {
      let seed = SeededGenerator.announcedSeed(for: "RecyclingOrderTests")
      var generator = SeededGenerator(seed: seed)
      let stores = try (0..<3).map { _ in try bench.store() }
      let keys = (0..<12).map { BlobKey("\($0 * 7919)-key") }
      var digests: [UInt64: UInt64] = [:]
      var recycled = 0
      for _ in 0..<3000 {
        let store = try #require(stores.randomElement(using: &generator))
        let key = try #require(keys.randomElement(using: &generator))
        guard Int.random(in: 0..<4, using: &generator) > 0 else {
          try store.remove(key)
          continue
        }
        let isRecycled = try recycles(key, with: store, byteCount: .random(in: 0..<4000, using: &generator))
        let inode = try #require(try bench.inode(file(key)))
        let digest = try #require(try cache.header(file(key)).keyDigest)
        if ages { try bench.setAge(.random(in: 2...9, using: &generator), of: key) }
        if isRecycled, let former = digests[inode] {
          recycled += 1
          #expect(former <= digest)
        }
        digests[inode] = digest
      }
      #expect(recycled > 500)
    }
  }
#endif
