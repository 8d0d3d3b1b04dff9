#if os(Linux)
  import BlobRecord
  import BlobStore
  import Foundation
  import PosixFiles
  import Synchronization
  import SystemPackage
  import TestSupport
  import Testing

  #if canImport(Glibc)
    import Glibc
  #elseif canImport(Musl)
    import Musl
  #endif

  /// Spec/Semantics.md, B: dead files that stores overwrite.
  @Suite struct RecyclingTests {
    typealias Recycling = BlobStore.Recycling

    let cache: Cache
    let trace = CallTrace()

    init() throws { cache = try Cache() }

    private func store(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
      try cache.store(files: trace.files, change)
    }

    /// Names of what lies in the bin.
    private func bin() throws -> [String] {
      guard try cache.exists(".recycled") else { return [] }
      return try FileManager.default.contentsOfDirectory(atPath: cache.path(".recycled")).sorted()
    }

    private func inode(_ file: String) throws -> UInt64? { try cache.state(file)?.inode }

    private func open(_ file: String, _ flags: CInt = O_RDONLY) throws -> CInt {
      let descriptor = Glibc.open(cache.path(file), flags | O_CLOEXEC)
      try check(descriptor < 0 ? -1 : 0, "open")
      return descriptor
    }

    /// A store whose bin holds the file of a record of so many payload bytes.
    ///
    /// - Returns: the file's inode.
    private func warm(_ store: BlobStore, _ byteCount: Int = 1000, key: BlobKey = "dead") throws -> UInt64 {
      try store.store(payload(byteCount), for: key)
      let inode = try #require(try inode("\(key.string.prefix(2))/\(key.string)"))
      #expect(try store.remove(key) == .done)
      return inode
    }

    // MARK: What goes in and comes out

    /// B1, B2.
    @Test func removedFileIsOverwrittenByTheNextStoreOfItsSize() throws {
      let store = try store()
      let inode = try warm(store)
      #expect(try bin().count == 1)
      try store.store(payload(900, 2), for: "key")
      #expect(try self.inode("ke/key") == inode)
      #expect(try bin() == [])
      #expect(try store.load("key")?.payload == payload(900, 2))
      #expect(try cache.state("ke/key")?.size == 964)
      // And a longer one.
      _ = try store.remove("key")
      try store.store(payload(4000, 3), for: "other")
      #expect(try self.inode("ot/other") == inode)
      #expect(try store.load("other")?.payload == payload(4000, 3))
    }

    /// B1: the old file and the new one change places by one call.
    @Test func replacedFileTakesThePlaceOfTheOneThatReplacesIt() throws {
      let store = try store()
      try store.store(payload(100), for: "key")
      let first = try inode("ke/key")
      try store.store(payload(200), for: "key")
      let second = try inode("ke/key")
      #expect(first != second)
      let names = try bin()
      #expect(names.count == 1)
      _ = trace.take()
      try store.store(payload(300), for: "key")
      #expect(
        trace.take().filter { [.rename, .renameExchange, .renameNoReplace, .open, .unlink].contains($0.call) }
          .map(\.call) == [.open, .renameExchange])
      #expect(try inode("ke/key") == first)
      #expect(try bin() == names)
      #expect(try inode(".recycled/" + names[0]) == second)
      #expect(try store.load("key")?.payload == payload(300))
    }

    /// B1.
    @Test func expiredAndEvictedFilesAreRecycled() throws {
      let store = try store { $0.sizeLimit = 100_000 }
      for index in 0..<4 { try store.store(payload(1000), for: "expired\(index)", ttl: .seconds(60)) }
      cache.clock.advance(by: 100)
      #expect(try store.collect().expired == 4)
      #expect(try bin().count == 4)
      for index in 0..<94 {
        try store.store(payload(1000), for: "\(index) key")
        cache.clock.advance(by: 1)
      }
      #expect(try bin().count == 0)
      #expect(try store.collect().evicted > 0)
      #expect(try bin().count > 0)
      let usage = try store.usage()
      #expect(usage.recycledFiles == Int64(try bin().count))
      #expect(usage.recycledBytes == usage.recycledFiles * 1064)
      #expect(usage.bytes == usage.records * 1064 + usage.recycledBytes)
      #expect(usage.bytes <= 100_000)
    }

    /// B2: a file of another class stays where it is.
    @Test func onlyAFileOfAboutTheSizeIsTaken() throws {
      let store = try store()
      let inode = try warm(store, 100_000)
      try store.store(payload(1000), for: "key")
      #expect(try self.inode("ke/key") != inode)
      try store.store(payload(200_000), for: "key2")
      #expect(try self.inode("ke/key2") != inode)
      #expect(try bin().count == 1)
      try store.store(payload(99_000), for: "key3")
      #expect(try self.inode("ke/key3") == inode)
      #expect(try store.load("key3")?.payload == payload(99_000))
    }

    /// B5: another store finds what this one has put there.
    @Test func storesShareTheBin() throws {
      let inode = try warm(store())
      let other = try store()
      // The first store of a process makes a file: it does not know the control file yet.
      try other.store(payload(10), for: "first")
      try other.store(payload(10), for: "key")
      #expect(try self.inode("ke/key") == inode)
      #expect(try other.load("key")?.payload == payload(10))
    }

    // MARK: What is not recycled

    enum Obstacle: String, CaseIterable, Sendable {
      case reader, writer, mapping, link, mode, symbolicLink, fifo
      case referenceFormat, locked, barrier, full, off, streamed
    }

    /// B3, B4.
    @Test(arguments: Obstacle.allCases) func fileIsNotOverwrittenWhere(obstacle: Obstacle) throws {
      let inode = try warm(store())
      let name = ".recycled/" + (try #require(try bin().first))
      var descriptor: CInt = -1
      var locked = false
      let store = try store {
        switch obstacle {
        case .referenceFormat: $0.format = .reference
        case .barrier: $0.durability = .barrier
        case .full: $0.durability = .full
        case .off: $0.recycling = .off
        default: break
        }
      }
      // It takes nothing from the bin before it has opened the control file.
      try store.store(payload(1), for: "first")
      var base: UnsafeMutableRawPointer?
      switch obstacle {
      case .reader: descriptor = try open(name)
      case .writer: descriptor = try open(name, O_WRONLY)
      case .mapping:
        let mapped = try open(name)
        base = mmap(nil, 100, PROT_READ, MAP_SHARED, mapped, 0)
        close(mapped)
      case .link: try check(link(cache.path(name), cache.path("backup")), "link")
      case .mode: try check(chmod(cache.path(name), 0o640), "chmod")
      case .symbolicLink:
        try check(rename(cache.path(name), cache.outside.path.string + "/target"), "rename")
        try check(symlink(cache.outside.path.string + "/target", cache.path(name)), "symlink")
      case .fifo:
        // The file stays, lest another one be given its number.
        try check(rename(cache.path(name), cache.outside.path.string + "/target"), "rename")
        try check(mkfifo(cache.path(name), 0o600), "mkfifo")
      case .locked: locked = true
      case .referenceFormat, .barrier, .full, .off, .streamed: break
      }
      defer {
        if descriptor >= 0 { close(descriptor) }
        if let base { munmap(base, 100) }
      }
      let before = try fileState(cache.path(name))
      if obstacle == .streamed {
        let input = cache.outside.path.appending("input")
        try payload(900, 2).write(to: URL(filePath: input.string))
        try store.store(contentsOf: input, for: "key")
      } else {
        try store.store(payload(900, 2), for: "key", locked: locked)
      }
      #expect(try self.inode("ke/key") != inode)
      #expect(try fileState(cache.path(name)) == before)
      #expect(try store.load("key")?.payload == payload(900, 2))
    }

    /// B3: what holds on to a record's file keeps it as it is, whatever becomes of the record.
    @Test(arguments: ["remove", "store"]) func openFileKeepsWhatItHeld(operation: String) throws {
      let store = try store()
      try store.store(payload(1000), for: "key")
      let descriptor = try open("ke/key")
      defer { close(descriptor) }
      for round in 0..<8 {
        if operation == "remove" { _ = try store.remove("key") }
        try store.store(payload(1000, UInt64(round) + 2), for: "key")
        var bytes = [UInt8](repeating: 0, count: 1064)
        #expect(pread(descriptor, &bytes, bytes.count, 0) == 1064)
        #expect(Data(bytes.dropFirst(64)) == payload(1000))
      }
    }

    /// B4: what may come back after a power cut is not overwritten.
    @Test(arguments: [Durability.barrier, .full]) func whatIsDisplacedWithDurabilityIsUnlinked(level: Durability) throws
    {
      let store = try store { $0.durability = level }
      try store.store(payload(100), for: "key")
      try store.store(payload(100), for: "key")
      _ = try store.remove("key")
      try store.store(payload(100), for: "expired", ttl: .seconds(60))
      cache.clock.advance(by: 100)
      try store.collect()
      #expect(try bin() == [])
    }

    /// B4.
    @Test(arguments: [Durability.automatic, .none]) func lockedAndLinkedAndDamagedFilesAreUnlinked(
      level: Durability
    ) throws {
      let store = try store { $0.durability = level }
      for replaces in [true, false] {
        func displace() throws {
          if replaces { try store.store(payload(50), for: "key") }
          _ = try store.remove("key")
          try store.emptyRecyclingBin()
        }
        try store.store(payload(100), for: "key", locked: true)
        let locked = try inode("ke/key")
        if replaces { try store.store(payload(50), for: "key", keepingLocks: true) } else { try store.remove("key") }
        #expect(try bin() == [])
        #expect(locked != nil)
        _ = try store.remove("key")
        try displace()
        try store.store(payload(100), for: "key")
        try check(link(cache.path("ke/key"), cache.path("backup\(replaces)")), "link")
        if replaces { try store.store(payload(50), for: "key") } else { try store.remove("key") }
        #expect(try bin() == [])
        try displace()
        try store.store(payload(100), for: "key")
        try cache.write([UInt8](repeating: 7, count: 100), to: "ke/key")
        if replaces { try store.store(payload(50), for: "key") } else { try store.remove("key") }
        #expect(try bin() == [])
        try displace()
      }
    }

    /// B4: a store that finds out late that it must be durable gives the recycled file up.
    @Test func lockedRecordIsNotReplacedByARecycledFile() throws {
      let store = try store { $0.durability = .automatic }
      try store.store(payload(100), for: "key", locked: true)
      let inode = try warm(store)
      for keepingLocks in [true, false] {
        try store.store(payload(50), for: "key", keepingLocks: keepingLocks)
        #expect(try self.inode("ke/key") != inode)
        #expect(try store.load("key")?.payload == payload(50))
        #expect(try bin().count == 1)
      }
    }

    // MARK: Readers

    /// B3, P1: whatever call of a store a load comes before, it sees the old blob or the new one, without waiting; and
    /// loads of the key whose file is overwritten see nothing.
    @Test(arguments: [true, false]) func loadBeforeAnyCallSeesOldOrNew(replaces: Bool) throws {
      let store = try store()
      let reader = try cache.store()
      var call = 0
      var isDone = false
      while !isDone {
        _ = try warm(store, 1000, key: "dead")
        try store.store(payload(800, 5), for: "key")
        _ = try warm(store, 1000, key: "dead")
        if !replaces { _ = try store.remove("key") }
        let count = Counter()
        let old: Data? = replaces ? payload(800, 5) : nil
        let number = call
        trace.onCall { _, _ in
          guard count.next() == number + 1 else { return nil }
          #expect(throws: Never.self) {
            let loaded = try reader.load("key", touching: false)?.payload
            #expect(loaded == old || loaded == payload(900, 6))
            #expect(try reader.load("dead", touching: false) == nil)
          }
          return nil
        }
        try store.store(payload(900, 6), for: "key")
        trace.onCall(nil)
        isDone = count.value < number + 1
        call += 1
        #expect(try reader.load("key")?.payload == payload(900, 6))
      }
      #expect(call > 8)
    }

    /// P1, P2, P9: readers, of the same process and through descriptors of their own, while the files of few keys are
    /// overwritten again and again.
    @Test(.timeLimit(.minutes(1))) func readersNeverSeeAMix() throws {
      let stores = try [cache.store(), cache.store()]
      let keys = (0..<3).map { BlobKey("key\($0)") }
      let group = DispatchGroup()
      for index in 0..<4 {
        group.enter()
        Thread {
          defer { group.leave() }
          let store = stores[index % 2]
          for round in 0..<1500 {
            let key = keys[(round + index) % keys.count]
            #expect(throws: Never.self) {
              if index < 2 {
                let byte = UInt8(truncatingIfNeeded: round &* 2 &+ index)
                if round % 7 == 6 { _ = try store.remove(key) }
                try store.store(Data(key.string.utf8) + Data(repeating: byte, count: 2000 + round % 1000), for: key)
              } else if let blob = try store.load(key, touching: false) {
                #expect(blob.payload.starts(with: key.string.utf8))
                #expect(Set(blob.payload.dropFirst(key.string.utf8.count)).count == 1)
              }
            }
          }
        }.start()
      }
      group.wait()
      #expect(try stores[0].verify().damagedFiles == 0)
    }

    /// B3: a process that only loads looks at the generations, too, as soon as files are recycled.
    @Test(arguments: [Recycling.automatic, .off]) func loaderSeesThatARecordChangesWhileItIsRead(
      recycling: Recycling
    ) throws {
      let writer = try cache.store { $0.recycling = recycling }
      for seed in 1...2 { try writer.store(payload(100, UInt64(seed)), for: "key") }
      let loader = try store()
      let trace = trace
      trace.onCall { call, _ in
        guard call == .read else { return nil }
        trace.onCall(nil)
        #expect(throws: Never.self) { try writer.store(payload(100, 3), for: "key") }
        return nil
      }
      let loaded = try loader.load("key")?.payload
      trace.onCall(nil)
      #expect(loaded == payload(100, recycling == .off ? 2 : 3))
      #expect(trace.count(.map) == (recycling == .off ? 0 : 1))
    }

    // MARK: Bounds and emptying

    /// B6.
    @Test func binIsBounded() throws {
      let few = try store { $0.recycling = .bounded(bytes: 1 << 20, files: 3) }
      for index in 0..<8 { try few.store(payload(100), for: "\(index) key") }
      for index in 0..<8 { _ = try few.remove("\(index) key") }
      #expect(try bin().count == 3)
      let small = try store { $0.recycling = .bounded(bytes: 1000, files: 100) }
      try small.emptyRecyclingBin()
      for index in 0..<8 { try small.store(payload(236), for: "\(index) key") }
      for index in 0..<8 { _ = try small.remove("\(index) key") }
      #expect(try bin().count == 3)
      #expect(try small.usage().recycledBytes == 900)
      // Where the file that is displaced has no room, it is unlinked.
      try small.store(payload(100), for: "key")
      let before = try bin().count
      try small.store(payload(5000), for: "key")
      try small.store(payload(5000), for: "key")
      #expect(try bin().count <= before + 1)
    }

    /// B6: a hundredth of the limit, 16 MiB at least, a tenth at most, and no more than collections leave free.
    @Test func boundFollowsTheSizeLimit() throws {
      let store = try store { $0.sizeLimit = 20_000 }
      for index in 0..<9 { try store.store(payload(936), for: "\(index) key") }
      for index in 0..<9 { _ = try store.remove("\(index) key") }
      #expect(try store.usage().recycledBytes == 2000)
      try store.emptyRecyclingBin()
      let tight = try self.store {
        $0.sizeLimit = 20_000
        $0.evictionTarget = 1
      }
      try tight.store(payload(10), for: "key")
      _ = try tight.remove("key")
      #expect(try bin() == [])
    }

    /// B7.
    @Test func collectionUnlinksWhatNobodyNeeds() throws {
      let store = try store()
      _ = try warm(store)
      var report = try store.collect()
      #expect(report.recycled == 0)
      #expect(report.recycledBytesAfter == 1064)
      var options = CollectionOptions()
      options.recycledFileAge = .seconds(-1)
      options.dryRun = true
      #expect(try store.collect(options).recycled == 1)
      #expect(try bin().count == 1)
      options.dryRun = false
      report = try store.collect(options)
      #expect(report.recycled == 1)
      #expect(report.recycledBytesFreed == 1064)
      #expect(report.recycledBytesAfter == 0)
      #expect(try bin() == [])
    }

    /// B7.
    @Test func collectionThatEmptiesTheBinRecyclesNothing() throws {
      let store = try store()
      _ = try warm(store)
      try store.store(payload(5), for: "expired", ttl: .seconds(60))
      cache.clock.advance(by: 100)
      var options = CollectionOptions()
      options.emptiesBin = true
      let report = try store.collect(options)
      #expect(report.expired == 1)
      #expect(try bin() == [])
      #expect(try store.usage().recycledFiles == 0)
    }

    /// B8.
    @Test func purgedBytesAreGone() throws {
      let store = try store()
      for seed in 1...3 { try store.store(payload(100, UInt64(seed)), for: "key") }
      #expect(try bin().count > 0)
      #expect(try store.remove("key", purging: true) == .done)
      #expect(try bin() == [])
      try store.store(payload(100), for: "key")
      _ = try warm(store)
      #expect(try store.purge(["key", "absent"]).map { try $0.result.get() } == [.done, .notFound])
      #expect(try bin() == [])
      _ = try warm(store)
      try store.store(payload(100), for: "key", locked: true)
      try store.removeAll(.all)
      #expect(try bin() == [])
    }

    /// B7, P6.
    @Test func fullVolumeEmptiesTheBinFirst() throws {
      let store = try store()
      _ = try warm(store, 100_000)
      let failure = Once()
      trace.onCall { call, _ in call == .write && failure.isFirst() ? .fail(.noSpace) : nil }
      try store.store(payload(10), for: "key")
      trace.onCall(nil)
      #expect(try bin() == [])
      #expect(try store.load("key")?.payload == payload(10))
    }

    // MARK: Trouble

    /// P10: what lies in the bin and is none of ours stays.
    @Test func foreignThingsInTheBinStay() throws {
      let store = try store()
      _ = try warm(store)
      for name in ["foreign", "f-", "f-XYZ", "f-00", ".tmp-1"] { try cache.write([1], to: ".recycled/" + name) }
      try cache.makeDirectory(".recycled/f-1")
      try store.emptyRecyclingBin()
      #expect(try bin() == [".tmp-1", "f-", "f-00", "f-1", "f-XYZ", "foreign"])
      #expect(try store.usage().foreignFiles == 0)
      try store.removeAll(.all)
      #expect(try bin().count == 6)
    }

    enum BinTrouble: String, CaseIterable, Sendable { case file, link, fifo, removed, moved, readOnly }

    /// P5, P10: without a bin everything goes on.
    @Test(arguments: BinTrouble.allCases) func everythingGoesOnWithoutABin(trouble: BinTrouble) throws {
      let store = try store()
      let path = cache.path(".recycled")
      if [.removed, .moved].contains(trouble) {
        _ = try warm(store)
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
      let store = try store()
      _ = try warm(store)
      trace.onCall { call, _ in call == .lease ? .fail(.invalidArgument) : nil }
      try store.store(payload(900), for: "key")
      let before = try bin()
      _ = try store.remove("key")
      #expect(try bin() == before)
    }

    /// The recycled file, or all of the bin, goes away before it is published.
    @Test(arguments: ["file", "bin"]) func fileThatIsRemovedWhileItIsOverwrittenIsWrittenAgain(what: String) throws {
      let store = try store()
      _ = try warm(store)
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

  /// Counts from 1.
  private final class Counter: Sendable {
    private let count = Atomic(0)

    func next() -> Int { count.wrappingAdd(1, ordering: .relaxed).newValue }
    var value: Int { count.load(ordering: .relaxed) }
  }

  /// True once.
  private final class Once: Sendable {
    private let wasAsked = Atomic(false)

    func isFirst() -> Bool { !wasAsked.exchange(true, ordering: .relaxed) }
  }
#endif
