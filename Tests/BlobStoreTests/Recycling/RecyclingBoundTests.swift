#if os(Linux)
  import BlobRecord
  import BlobStore
  import Foundation
  import Posix
  import Synchronization
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

  /// Spec/Semantics.md, B6 to B9: the capacity of the recycling bin, when it is emptied, and foreign files in it.
  @Suite struct RecyclingBoundTests {
    let bench: RecyclingBench
    private var cache: Cache { bench.cache }
    private var trace: CallTrace { bench.trace }

    init() throws { bench = try RecyclingBench() }

    /// B6.
    @Test func binIsBounded() throws {
      let few = try bench.store { $0.recycling = .bounded(bytes: 1 << 20, files: 3) }
      for index in 0..<8 { try few.store(payload(100), for: "\(index) key") }
      for index in 0..<8 { _ = try few.remove("\(index) key") }
      #expect(try bench.bin().count == 3)
      let small = try bench.store { $0.recycling = .bounded(bytes: 1000, files: 100) }
      try small.emptyRecyclingBin()
      for index in 0..<8 { try small.store(payload(236), for: "\(index) key") }
      for index in 0..<8 { _ = try small.remove("\(index) key") }
      #expect(try bench.bin().count == 3)
      #expect(try small.usage().recycledBytes == 900)
      // A displaced file for which the bin has no room is unlinked.
      try small.store(payload(100), for: "key")
      let before = try bench.bin().count
      try small.store(payload(5000), for: "key")
      try small.store(payload(5000), for: "key")
      #expect(try bench.bin().count <= before + 1)
    }

    /// B6: the bound is 1 % of the limit or 16 MiB, whichever is more, but at most 10 % and what collections leave.
    @Test func boundFollowsTheSizeLimit() throws {
      let store = try bench.store { $0.limits.size = 20_000 }
      for index in 0..<9 { try store.store(payload(936), for: "\(index) key") }
      for index in 0..<9 { _ = try store.remove("\(index) key") }
      #expect(try store.usage().recycledBytes == 2000)
      try store.emptyRecyclingBin()
      let tight = try bench.store {
        $0.limits.size = 20_000
        $0.limits.evictionTarget = 1
      }
      try tight.store(payload(10), for: "key")
      _ = try tight.remove("key")
      #expect(try bench.bin() == [])
    }

    /// B7.
    @Test func collectionUnlinksWhatNobodyNeeds() throws {
      let store = try bench.store()
      _ = try bench.warm(store)
      var report = try store.collect()
      #expect(report.recycled == 0)
      #expect(report.recycledBytesAfter == 1064)
      var options = BlobStore.CollectionOptions()
      options.recycledFileAge = .seconds(-1)
      options.dryRun = true
      #expect(try store.collect(options).recycled == 1)
      #expect(try bench.bin().count == 1)
      options.dryRun = false
      report = try store.collect(options)
      #expect(report.recycled == 1)
      #expect(report.recycledBytesFreed == 1064)
      #expect(report.recycledBytesAfter == 0)
      #expect(try bench.bin() == [])
    }

    /// B7.
    @Test func collectionThatEmptiesTheBinRecyclesNothing() throws {
      let store = try bench.store()
      _ = try bench.warm(store)
      try store.store(payload(5), for: "expired", ttl: .seconds(60))
      cache.clock.advance(by: 100)
      var options = BlobStore.CollectionOptions()
      options.emptiesBin = true
      let report = try store.collect(options)
      #expect(report.expired == 1)
      #expect(try bench.bin() == [])
      #expect(try store.usage().recycledFiles == 0)
    }

    /// B8.
    @Test func purgedBytesAreGone() throws {
      let store = try bench.store()
      for seed in 1...3 { try store.store(payload(100, UInt64(seed)), for: "key") }
      #expect(try bench.bin().count > 0)
      #expect(try store.remove("key", purging: true) == .done)
      #expect(try bench.bin() == [])
      try store.store(payload(100), for: "key")
      _ = try bench.warm(store)
      #expect(try store.purge(["key", "absent"]).map { try $0.result.get() } == [.done, .notFound])
      #expect(try bench.bin() == [])
      _ = try bench.warm(store)
      try store.store(payload(100), for: "key", locks: .one)
      try store.removeAll(.all)
      #expect(try bench.bin() == [])
    }

    /// B7, P6.
    @Test func fullVolumeEmptiesTheBinFirst() throws {
      let store = try bench.store()
      _ = try bench.warm(store, 100_000)
      let failure = Once()
      trace.onCall { call, _ in call == .write && failure.isFirst() ? .fail(.noSpace) : nil }
      try store.store(payload(10), for: "key")
      trace.onCall(nil)
      #expect(try bench.bin() == [])
      #expect(try store.load("key")?.payload == payload(10))
    }

    // MARK: Trouble

    /// P10: foreign files in the bin are not removed.
    @Test func foreignThingsInTheBinStay() throws {
      let store = try bench.store()
      _ = try bench.warm(store)
      let names = ["foreign", "f-", "f-1", ".tmp-1"] + ["", "XYZ", "00", "-1", "+1"].map(RecycledName.of)
      for name in names { try cache.write([1], to: ".recycled/" + name) }
      let directory = RecycledName.of("1")
      try cache.makeDirectory(".recycled/" + directory)
      try store.emptyRecyclingBin()
      #expect(try bench.bin() == (names + [directory]).sorted())
      #expect(try store.usage().foreignFiles == 0)
      try store.removeAll(.all)
      #expect(try bench.bin().count == names.count + 1)
    }

    enum BinTrouble: String, CaseIterable, Sendable { case file, link, fifo, removed, moved, readOnly }

    /// P5, P10: all operations work without a bin.
    @Test(arguments: BinTrouble.allCases) func everythingGoesOnWithoutABin(trouble: BinTrouble) throws {
      let store = try bench.store()
      let path = cache.path(".recycled")
      if [.removed, .moved].contains(trouble) {
        _ = try bench.warm(store)
        if trouble == .removed { try FileManager.default.removeItem(atPath: path) }
        if trouble == .moved { try check(rename(path, cache.outside.path.string + "/moved"), "rename") }
      } else {
        try store.store(payload(1), for: "first")
        switch trouble {
        case .file: try cache.write([1], to: ".recycled")
        case .link: try check(symlink(cache.outside.path.string, path), "symlink")
        case .fifo: try check(mkfifo(path, 0o600), "mkfifo")
        default: trace.onCall { call, path in path.string.contains("/.recycled") ? .fail(.readOnlyFileSystem) : nil }
        }
      }
      for seed in 1...3 {
        try store.store(payload(900, UInt64(seed)), for: "key")
        #expect(try store.load("key")?.payload == payload(900, UInt64(seed)))
      }
      #expect(try store.remove("key") == .done)
      #expect(try store.load("key") == nil)
      trace.onCall(nil)
      #expect(try store.collect().failed == 0)
    }

    @Test func refusedLeasesTurnRecyclingOff() throws {
      let store = try bench.store()
      _ = try bench.warm(store)
      trace.onCall { call, _ in call == .lease ? .fail(.invalidArgument) : nil }
      try store.store(payload(900), for: "key")
      let before = try bench.bin()
      _ = try store.remove("key")
      #expect(try bench.bin() == before)
    }

    /// The recycled file, or the whole bin, is removed before the file is published.
    @Test(arguments: ["file", "bin"]) func fileThatIsRemovedWhileItIsOverwrittenIsWrittenAgain(what: String) throws {
      let store = try bench.store()
      _ = try bench.warm(store)
      let path = cache.path(".recycled")
      let failure = Once()
      trace.onCall { call, _ in
        guard call == .write, failure.isFirst() else { return nil }
        #expect(throws: Never.self) {
          try FileManager.default.removeItem(
            atPath: what == "bin" ? path : path + "/" + FileManager.default.contentsOfDirectory(atPath: path)[0])
        }
        return nil
      }
      try store.store(payload(900), for: "key")
      #expect(try store.load("key")?.payload == payload(900))
    }
  }
#endif
