import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Random bytes in packs and index cause no crash and no foreign payload, and the errors describe the damage.
@Suite struct HostilePackTests {
  let cache: Cache
  static let keys = (0..<30).map { BlobKey("key \($0)") }

  init() throws {
    cache = try Cache()
    let store = try packing()
    for (number, key) in Self.keys.enumerated() {
      // The replaced payloads remain in the packs as dead records.
      try store.store(Self.content(number, life: 0), for: key)
      try store.store(Self.content(number, life: 1), for: key, locks: number.isMultiple(of: 5) ? .one : .none)
    }
  }

  private func packing() throws -> BlobStore {
    try cache.store {
      $0.packing = .upTo(1000)
      $0.access.lockTimeout = .milliseconds(50)
    }
  }

  private static func content(_ number: Int, life: Int) -> Data {
    payload(50 + 20 * number, UInt64(100 * life + number))
  }

  /// Parts of the files that are overwritten with random bytes.
  enum Part: CaseIterable {
    case indexHead, entries, overflow, packHead, chunkTable, deadSectors, records, intents, packWords
  }

  private func change(_ part: Part, _ generator: inout SeededGenerator) throws {
    let file = part == .intents || part == .packWords ? ".blobcache" : "\(part)".hasPrefix("pack") ? ".packs/p-0" : nil
    let name: String
    let range: Range<Int>
    switch part {
    case .indexHead: (name, range) = (".packs/index", 0..<80)
    case .entries:
      (name, range) = (".packs/index", IndexLayout.headerByteCount..<(16_000 * IndexLayout.bucketByteCount))
    case .overflow:
      (name, range) = (".packs/index", IndexLayout.headerByteCount..<(16_000 * IndexLayout.bucketByteCount))
    case .packHead: (name, range) = (file ?? "", 0..<64)
    case .chunkTable: (name, range) = (".packs/p-0", PackLayout.tableOffset..<(PackLayout.tableOffset + 256))
    case .deadSectors:
      (name, range) = (".packs/p-0", PackLayout.deadSectorsOffset..<(PackLayout.deadSectorsOffset + 8192))
    case .records: (name, range) = (".packs/p-0", PackLayout.chunksOffset..<(PackLayout.chunksOffset + 30_000))
    case .intents: (name, range) = (file ?? "", ControlLayout.stripesOffset..<ControlLayout.byteCount)
    case .packWords: (name, range) = (file ?? "", ControlLayout.packIndexOffset..<(ControlLayout.packIndexOffset + 16))
    }
    let handle = try FileHandle(forUpdating: URL(filePath: cache.path(name)))
    defer { #expect(throws: Never.self) { try handle.close() } }
    if part == .entries || part == .intents {
      // Entries with the tags of the keys that point to arbitrary places, and intents that announce them.
      for offset in stride(from: range.lowerBound, to: range.upperBound, by: part == .intents ? 32 : 64) {
        var words = (0..<3).map { _ in Self.word(part, &generator) }
        // The stripe itself stays free.
        if part == .intents { words[0] = 0 }
        try handle.seek(toOffset: UInt64(offset))
        try handle.write(contentsOf: words.withUnsafeBytes { Data($0) })
      }
      return
    }
    for _ in 0..<Int.random(in: 1...20, using: &generator) {
      let bytes = generator.bytes(Int.random(in: 1...16, using: &generator))
      let offset = Int.random(
        in: range.lowerBound...max(range.lowerBound, range.upperBound - bytes.count), using: &generator)
      try handle.seek(toOffset: UInt64(offset))
      try handle.write(contentsOf: Data(bytes))
    }
  }

  private static func word(_ part: Part, _ generator: inout SeededGenerator) -> UInt64 {
    // Half of the addresses are near the records, the others anywhere.
    let isNear = Bool.random(using: &generator)
    let address = isNear ? UInt64.random(in: 0..<4000, using: &generator) : generator.next() >> 27
    guard part == .intents else { return generator.next() << 37 | address }
    return UInt64.random(in: 0...4, using: &generator) << 56 | address
  }

  @Test(arguments: Part.allCases, [false, true]) func anyBytesHarmNobody(part: Part, whileOpen: Bool) throws {
    let seed = SeededGenerator.announcedSeed(for: "HostilePackTests")
    for round in 0..<4 {
      let bench = try HostilePackTests()
      var generator = SeededGenerator(seed: seed, round)
      let open = whileOpen ? try bench.packing() : nil
      if let open { for key in Self.keys { _ = try open.load(key) } }
      try bench.change(part, &generator)
      let store = try open ?? bench.packing()
      bench.checkLoads(store, "seed \(seed), \(part), round \(round)")
      bench.checkLooks(store, "seed \(seed), \(part), round \(round)")
      bench.checkChanges(store, "seed \(seed), \(part), round \(round)")
      bench.checkMoves(store, "seed \(seed), \(part), round \(round)")
    }
  }

  private static let expectedCodes: [BlobStoreError.Code] = [.damaged, .foreignFile, .laterVersion, .busy]

  private func checkLoads(_ store: BlobStore, _ event: Comment) {
    for (number, key) in Self.keys.enumerated() {
      do throws(BlobStoreError) {
        let payload = try store.load(key)?.payload
        // A power cut may revive a dead record, too.
        let isStored = payload == nil || (0...1).contains { payload == Self.content(number, life: $0) }
        #expect(isStored, event)
        _ = try store.header(for: key)
        _ = try store.openReader(for: key)
        _ = try store.extendedData(for: key)
      } catch {
        #expect(Self.expectedCodes.contains(error.code), "\(event): \(error)")
      }
    }
  }

  /// Checks lookups that load no payload.
  private func checkLooks(_ store: BlobStore, _ event: Comment) {
    func look(_ body: () throws(BlobStoreError) -> Void) {
      do throws(BlobStoreError) {
        try body()
      } catch {
        let isAbsent = error.errno == .noSuchFileOrDirectory || error.errno == .notDirectory
        #expect(Self.expectedCodes.contains(error.code) || isAbsent, "\(event): \(error)")
      }
    }
    for key in Self.keys.prefix(5) { look { () throws(BlobStoreError) in _ = try store.inspectRecord(of: key) } }
    look { () throws(BlobStoreError) in _ = try store.packUsage() }
    look { () throws(BlobStoreError) in _ = try store.usage() }
    look { () throws(BlobStoreError) in
      let pack = try store.inspectPack(FilePath(cache.path(".packs/p-0")))
      for number in 0..<3 { _ = try pack?.chunk(number) }
    }
  }

  private func checkChanges(_ store: BlobStore, _ event: Comment) {
    for (number, key) in Self.keys.enumerated() {
      do throws(BlobStoreError) {
        switch number % 4 {
        case 0: _ = try store.lock(key)
        case 1: _ = try store.remove(key)
        default:
          let new = payload(number.isMultiple(of: 2) ? 100 : 2000, UInt64(number))
          try store.store(new, for: key)
          #expect(try store.load(key)?.payload == new, event)
        }
      } catch {
        #expect(Self.expectedCodes.contains(error.code), "\(event): \(error)")
      }
    }
  }

  /// Checks that records which can be moved keep their payload.
  private func checkMoves(_ store: BlobStore, _ event: Comment) {
    let before = Self.keys.map { try? store.load($0)?.payload }
    do throws(BlobStoreError) {
      _ = try store.unpackRecords()
      _ = try store.packRecords()
    } catch {
      #expect(Self.expectedCodes.contains(error.code), "\(event): \(error)")
    }
    for (key, payload) in zip(Self.keys, before) {
      guard let payload, let after = try? store.load(key)?.payload else { continue }
      #expect(after == payload, "\(event), \(key)")
    }
  }

  // MARK: Invalid files

  enum Odd: CaseIterable {
    case shortPack, packWithoutChunks, emptyPack, packOfAnotherCache, noPack, packIsDirectory, packIsLink, emptyIndex
    case shortIndex, indexOfAnotherCache, indexIsDirectory, indexIsLink, directoryIsFile, directoryIsLink,
      directoryIsGone
    case laterPack, laterIndex
  }

  @Test(arguments: Odd.allCases) func anOddFileHarmsNobody(odd: Odd) throws {
    try plant(odd)
    let store = try packing()
    checkLoads(store, "\(odd)")
    checkLooks(store, "\(odd)")
    checkChanges(store, "\(odd)")
    // Without a usable index, a store cannot know whether a key is packed, so it may fail. In other cases, it succeeds.
    do throws(BlobStoreError) {
      try store.store(payload(5000), for: "large")
      #expect(try store.load("large")?.payload == payload(5000))
    } catch {
      #expect([.indexIsDirectory, .indexIsLink, .laterIndex].contains(odd) && error.code == .foreignFile, "\(error)")
    }
  }

  private func plant(_ odd: Odd) throws {
    let (pack, index) = (cache.path(".packs/p-0"), cache.path(".packs/index"))
    func cut(_ path: String, _ byteCount: Int) throws { try check(truncate(path, off_t(byteCount)), "truncate") }
    func replace(_ path: String, _ make: () throws -> Void) throws {
      try FileManager.default.removeItem(atPath: path)
      try make()
    }
    func makeLink(_ path: String) throws {
      let target = cache.outside.path.string + "/elsewhere"
      try FileManager.default.moveItem(atPath: path, toPath: target)
      try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: target)
    }
    func makeDirectory(_ path: String) throws {
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
    }
    func makeLater(_ path: String) throws {
      let handle = try FileHandle(forUpdating: URL(filePath: path))
      try handle.seek(toOffset: 8)
      try handle.write(contentsOf: Data([9]))
      try handle.close()
    }
    switch odd {
    case .shortPack: try cut(pack, PackLayout.chunksOffset + 5000)
    case .packWithoutChunks: try cut(pack, PackLayout.chunksOffset)
    case .emptyPack: try cut(pack, 0)
    case .noPack: try FileManager.default.removeItem(atPath: pack)
    case .packIsDirectory: try replace(pack) { try makeDirectory(pack) }
    case .packIsLink: try makeLink(pack)
    case .emptyIndex: try cut(index, 0)
    case .shortIndex: try cut(index, 10_000)
    case .indexIsDirectory: try replace(index) { try makeDirectory(index) }
    case .indexIsLink: try makeLink(index)
    case .directoryIsFile:
      try replace(cache.path(".packs")) { try Data([1]).write(to: URL(filePath: cache.path(".packs"))) }
    case .directoryIsLink: try makeLink(cache.path(".packs"))
    case .directoryIsGone: try FileManager.default.removeItem(atPath: cache.path(".packs"))
    case .laterPack: try makeLater(pack)
    case .laterIndex: try makeLater(index)
    case .packOfAnotherCache, .indexOfAnotherCache:
      let another = try HostilePackTests()
      let path = odd == .packOfAnotherCache ? pack : index
      let other = another.cache.path(odd == .packOfAnotherCache ? ".packs/p-0" : ".packs/index")
      try replace(path) { try FileManager.default.copyItem(atPath: other, toPath: path) }
    }
  }
}
