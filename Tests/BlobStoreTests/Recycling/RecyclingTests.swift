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

  /// Spec/Semantics.md, B1 to B5: which files enter the recycling bin, and which are overwritten.
  @Suite struct RecyclingTests {
    let bench: RecyclingBench
    private var cache: Cache { bench.cache }
    private var trace: CallTrace { bench.trace }

    init() throws { bench = try RecyclingBench() }

    /// B1, B2.
    @Test func removedFileIsOverwrittenByTheNextStoreOfItsSize() throws {
      let store = try bench.store()
      let inode = try bench.warm(store)
      #expect(try bench.bin().count == 1)
      try store.store(payload(900, 2), for: "key")
      #expect(try bench.inode("ke/key") == inode)
      #expect(try bench.bin() == [])
      #expect(try store.load("key")?.payload == payload(900, 2))
      #expect(try cache.state("ke/key")?.size == 964)
      // A longer record overwrites the file, too.
      _ = try store.remove("key")
      try store.store(payload(4000, 3), for: "key2")
      #expect(try bench.inode("ke/key2") == inode)
      #expect(try store.load("key2")?.payload == payload(4000, 3))
    }

    /// B1: the old and the new file are exchanged by one call.
    @Test func replacedFileTakesThePlaceOfTheOneThatReplacesIt() throws {
      let store = try bench.store()
      try store.store(payload(100), for: "key")
      let first = try bench.inode("ke/key")
      try store.store(payload(200), for: "key")
      let second = try bench.inode("ke/key")
      #expect(first != second)
      let names = try bench.bin()
      #expect(names.count == 1)
      _ = trace.take()
      try store.store(payload(300), for: "key")
      #expect(
        trace.take().filter { [.rename, .renameExchange, .renameNoReplace, .open, .unlink].contains($0.call) }
          .map(\.call) == [.open, .renameExchange])
      #expect(try bench.inode("ke/key") == first)
      #expect(try bench.bin() == names)
      #expect(try bench.inode(".recycled/" + names[0]) == second)
      #expect(try store.load("key")?.payload == payload(300))
    }

    /// B1.
    @Test func expiredAndEvictedFilesAreRecycled() throws {
      let store = try bench.store { $0.limits.size = 100_000 }
      for index in 0..<4 { try store.store(payload(1000), for: "expired\(index)", ttl: .seconds(60)) }
      cache.clock.advance(by: 100)
      #expect(try store.collect().expired == 4)
      #expect(try bench.bin().count == 4)
      for index in 0..<94 {
        try store.store(payload(1000), for: "\(index) key")
        cache.clock.advance(by: 1)
      }
      #expect(try bench.bin().count == 0)
      #expect(try store.collect().evicted > 0)
      #expect(try bench.bin().count > 0)
      let usage = try store.usage()
      #expect(usage.recycledFiles == Int64(try bench.bin().count))
      #expect(usage.recycledBytes == usage.recycledFiles * 1064)
      #expect(usage.bytes == usage.records * 1064 + usage.recycledBytes)
      #expect(usage.bytes <= 100_000)
    }

    /// B2: a file of another size class is not used.
    @Test func onlyAFileOfAboutTheSizeIsTaken() throws {
      let store = try bench.store()
      let inode = try bench.warm(store, 100_000)
      try store.store(payload(1000), for: "key")
      #expect(try bench.inode("ke/key") != inode)
      try store.store(payload(200_000), for: "key2")
      #expect(try bench.inode("ke/key2") != inode)
      #expect(try bench.bin().count == 1)
      try store.store(payload(99_000), for: "key3")
      #expect(try bench.inode("ke/key3") == inode)
      #expect(try store.load("key3")?.payload == payload(99_000))
    }

    /// B5: another store finds the files that this store has put into the bin.
    @Test func storesShareTheBin() throws {
      let inode = try bench.warm(bench.store())
      let other = try bench.store()
      // The first store of a process creates a file, because it does not know the control file yet.
      try other.store(payload(10), for: "first")
      try other.store(payload(10), for: "key")
      #expect(try bench.inode("ke/key") == inode)
      #expect(try other.load("key")?.payload == payload(10))
    }

    /// B5: a missing bin is searched again when another file turns out to be missing, and once a second.
    @Test func binThatIsMadeLaterIsFound() throws {
      let store = try bench.store()
      // The store then knows the control file, and that no bin exists.
      for key: BlobKey in ["first", "second"] { try store.store(payload(10), for: key) }
      let inode = try bench.warm(bench.store(), 10)
      let once = Once()
      trace.onCall { call, path in
        switch call {
        case .openUnnamed: .fail(.notSupported)
        case .open where path.string.contains(".tmp-") && once.isFirst(): .fail(.noSuchFileOrDirectory)
        default: nil
        }
      }
      try store.store(payload(10), for: "key")
      #expect(!once.isFirst())
      #expect(try bench.inode("ke/key") == inode)
      #expect(try store.load("key")?.payload == payload(10))
    }

    // MARK: Files that are not recycled

    enum Obstacle: String, CaseIterable, Sendable {
      case reader, writer, mapping, link, mode, symbolicLink, fifo
      case referenceFormat, locked, barrier, full, off, streamed
    }

    /// B3, B4.
    @Test(arguments: Obstacle.allCases) func fileIsNotOverwrittenWhere(obstacle: Obstacle) throws {
      let inode = try bench.warm(bench.store())
      let name = ".recycled/" + (try #require(try bench.bin().first))
      var descriptor: CInt = -1
      var locks = BlobStore.LockPolicy.none
      let store = try bench.store {
        switch obstacle {
        case .referenceFormat: $0.format = .reference
        case .barrier: $0.durability = .barrier
        case .full: $0.durability = .full
        case .off: $0.recycling = .off
        default: break
        }
      }
      // The store uses no file of the bin before it has opened the control file.
      try store.store(payload(1), for: "first")
      var base: UnsafeMutableRawPointer?
      switch obstacle {
      case .reader: descriptor = try bench.open(name)
      case .writer: descriptor = try bench.open(name, O_WRONLY)
      case .mapping:
        let mapped = try bench.open(name)
        base = mmap(nil, 100, PROT_READ, MAP_SHARED, mapped, 0)
        close(mapped)
      case .link: try check(link(cache.path(name), cache.path("backup")), "link")
      case .mode: try check(chmod(cache.path(name), 0o640), "chmod")
      case .symbolicLink:
        try check(rename(cache.path(name), cache.outside.path.string + "/target"), "rename")
        try check(symlink(cache.outside.path.string + "/target", cache.path(name)), "symlink")
      case .fifo:
        // The file is kept, so that its inode number is not reused.
        try check(rename(cache.path(name), cache.outside.path.string + "/target"), "rename")
        try check(mkfifo(cache.path(name), 0o600), "mkfifo")
      case .locked: locks = .one
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
        try store.store(payload(900, 2), for: "key", locks: locks)
      }
      // A file that can never be overwritten is unlinked. A new file may reuse its inode number unless it has a link.
      let isWorn = obstacle == .link || obstacle == .mode
      #expect(try obstacle == .mode || bench.inode("ke/key") != inode)
      if obstacle == .link { #expect(try Data(bytes(ofFile: cache.path("backup")).dropFirst(64)) == payload(1000)) }
      #expect(try fileState(cache.path(name)) == (isWorn ? nil : before))
      #expect(try store.load("key")?.payload == payload(900, 2))
    }

    /// B3: an open file of a record keeps its content, whatever happens to the record.
    @Test(arguments: ["remove", "store"]) func openFileKeepsWhatItHeld(operation: String) throws {
      let store = try bench.store()
      try store.store(payload(1000), for: "key")
      let descriptor = try bench.open("ke/key")
      defer { close(descriptor) }
      for round in 0..<8 {
        if operation == "remove" { _ = try store.remove("key") }
        try store.store(payload(1000, UInt64(round) + 2), for: "key")
        var bytes = [UInt8](repeating: 0, count: 1064)
        #expect(pread(descriptor, &bytes, bytes.count, 0) == 1064)
        #expect(Data(bytes.dropFirst(64)) == payload(1000))
      }
    }

    /// B4: a file whose content a power cut may restore is not overwritten.
    @Test(arguments: [BlobStore.Durability.barrier, .full]) func whatIsDisplacedWithDurabilityIsUnlinked(
      level: BlobStore.Durability
    ) throws {
      let store = try bench.store { $0.durability = level }
      try store.store(payload(100), for: "key")
      try store.store(payload(100), for: "key")
      _ = try store.remove("key")
      try store.store(payload(100), for: "expired", ttl: .seconds(60))
      cache.clock.advance(by: 100)
      try store.collect()
      #expect(try bench.bin() == [])
    }

    /// B4.
    @Test(arguments: [BlobStore.Durability.automatic, .none]) func lockedAndLinkedAndDamagedFilesAreUnlinked(
      level: BlobStore.Durability
    ) throws {
      let store = try bench.store { $0.durability = level }
      for replaces in [true, false] {
        func displace() throws {
          if replaces { try store.store(payload(50), for: "key") }
          _ = try store.remove("key")
          try store.emptyRecyclingBin()
        }
        try store.store(payload(100), for: "key", locks: .one)
        let locked = try bench.inode("ke/key")
        if replaces { try store.store(payload(50), for: "key", locks: .keep) } else { try store.remove("key") }
        #expect(try bench.bin() == [])
        #expect(locked != nil)
        _ = try store.remove("key")
        try displace()
        try store.store(payload(100), for: "key")
        try check(link(cache.path("ke/key"), cache.path("backup\(replaces)")), "link")
        if replaces { try store.store(payload(50), for: "key") } else { try store.remove("key") }
        #expect(try bench.bin() == [])
        try displace()
        try store.store(payload(100), for: "key")
        try cache.write([UInt8](repeating: 7, count: 100), to: "ke/key")
        if replaces { try store.store(payload(50), for: "key") } else { try store.remove("key") }
        #expect(try bench.bin() == [])
        try displace()
      }
    }

    /// B4: extended attributes that another program has set on a record do not pass to the next record.
    @Test func filesWithAttributesAreNotOverwritten() throws {
      let store = try bench.store()
      try store.store(payload(1000), for: RecyclingBench.dead)
      try store.withExclusiveAccess(to: RecyclingBench.dead) {
        try setAttribute("user.etag", [1, 2, 3], ofFile: $0.string)
      }
      try store.remove(RecyclingBench.dead)
      #expect(try bench.bin().count == 1)
      try store.store(payload(1000), for: "key")
      #expect(try !hasAttribute("user.etag", ofFile: cache.path("ke/key")))
      // No store will ever overwrite the file.
      #expect(try bench.bin() == [])
    }

    /// B4: a file with the root's former permissions is never overwritten either.
    @Test func filesOfOtherPermissionsLeaveTheBin() throws {
      let store = try bench.store()
      _ = try bench.warm(store)
      let name = try #require(bench.bin().first)
      try check(chmod(cache.path(".recycled/" + name), 0o640), "chmod")
      try store.store(payload(1000), for: "key")
      #expect(try bench.bin() == [])
      #expect(try cache.state("ke/key")?.permissions == 0o600)
    }

    /// B4: a store that detects late that it must be durable does not use the recycled file.
    @Test func lockedRecordIsNotReplacedByARecycledFile() throws {
      let store = try bench.store { $0.durability = .automatic }
      try store.store(payload(100), for: "key", locks: .one)
      let inode = try bench.warm(store)
      for locks in [.keep, .none] as [BlobStore.LockPolicy] {
        try store.store(payload(50), for: "key", locks: locks)
        #expect(try bench.inode("ke/key") != inode)
        #expect(try store.load("key")?.payload == payload(50))
        #expect(try bench.bin().count == 1)
      }
    }
  }
#endif
