import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

@Suite struct GenerationTests {
  let directory: TemporaryDirectory
  let store: BlobStore

  init() throws {
    directory = try TemporaryDirectory()
    var configuration = BlobStore.Configuration()
    configuration.durability = .none
    configuration.packing = .upTo(8192)
    store = try BlobStore(directory: directory.path.appending("cache"), configuration: configuration)
  }

  @Test func thereIsNoneBeforeTheFirstChange() throws {
    #expect(try store.generation(of: "key") == nil)
    #expect(try store.load("key") == nil)
    #expect(try store.generation(of: "key") == nil)
  }

  @Test func changesOfThePayloadChangeItAndLeaveItEven() throws {
    var seen: Set<UInt64> = []
    func note() throws {
      let generation = try #require(try store.generation(of: "key"))
      #expect(generation % 2 == 0)
      #expect(seen.insert(generation).inserted)
    }
    try store.store(Data([1]), for: "key")
    try note()
    try store.store(Data([2]), for: "key")
    try note()
    try store.remove("key")
    try note()
  }

  /// A process died while it changed a payload of this stripe, so memory tiers must not trust their entries.
  @Test func anOddGenerationIsEvenAndAnotherAfterTheNextChange() throws {
    try store.store(Data([1]), for: "key")
    let before = try #require(try store.generation(of: "key"))
    let file = try FileHandle(forUpdating: directory.url("cache/.blobcache"))
    let offset = UInt64(ControlLayout.generationOffset(of: try store.digest(of: "key", for: "load")))
    try file.seek(toOffset: offset)
    var bytes = try #require(try file.read(upToCount: 4))
    #expect(bytes[0] % 2 == 0)
    bytes[0] += 1
    try file.seek(toOffset: offset)
    try file.write(contentsOf: bytes)
    try file.close()
    #expect(try store.generation(of: "key") == before + 1)
    try store.store(Data([2]), for: "key")
    let after = try #require(try store.generation(of: "key"))
    #expect(after % 2 == 0)
    #expect(after != before)
  }

  /// A reader without a control file looks it up again with the next check of the root, and counts loads then.
  @Test func aControlFileThatIsMadeLaterIsFoundByLoads() throws {
    try store.store(Data([1]), for: "key")
    try FileManager.default.removeItem(at: directory.url("cache/.blobcache"))
    let reader = try BlobStore(directory: store.directory)
    #expect(try reader.load("key", touching: false)?.payload == Data([1]))
    let writer = try BlobStore(directory: store.directory)
    try writer.store(Data([2]), for: "other")
    reader.checkRoot()
    let before = try writer.traffic().hits
    #expect(try reader.load("key", touching: false)?.payload == Data([1]))
    #expect(try writer.traffic().hits == before + 1)
  }

  /// Otherwise a memory tier could mistake generations of a new file for those of the previous one.
  @Test func aNewFileBeginsWithOtherGenerations() throws {
    var seen: Set<UInt64> = []
    for round in 0..<20 as Range<UInt8> {
      if round > 0 { try FileManager.default.removeItem(at: directory.url("cache")) }
      let store = try BlobStore(directory: directory.path.appending("cache"))
      try store.store(Data([round]), for: "key")
      for key in ["key", "other"] as [BlobKey] {
        let generation = try #require(try store.generation(of: key))
        #expect(generation % 2 == 0)
        #expect(seen.insert(generation).inserted)
      }
    }
  }

  /// Spec/ControlFile.md: one word is random, and the generations start at zero.
  @Test func whatIsNotWrittenOfANewFileIsZero() throws {
    try store.store(Data([1]), for: "key")
    let content = try Data(contentsOf: directory.url("cache/.blobcache"))
    #expect(content.count == ControlLayout.byteCount)
    let generations = content[ControlLayout.generationsOffset..<ControlLayout.marksOffset]
    // Except for the generation that the store has changed.
    #expect(generations.count { $0 != 0 } == 1)
    #expect(content[ControlLayout.generationBaseOffset] % 2 == 0)
  }

  /// Nine of ten blobs in memory remain valid after 100,000 changes of other keys.
  @Test func fewKeysShareAGeneration() {
    var generator = SeededGenerator(seed: 1)
    let changed = Set((0..<100_000).map { _ in ControlLayout.generationOffset(of: generator.next()) })
    let hit = (0..<10_000).count { _ in changed.contains(ControlLayout.generationOffset(of: generator.next())) }
    #expect(hit < 1000)
  }

  @Test func changesOfTheHeaderLeaveItAsItIs() throws {
    try store.store(Data([1]), for: "key")
    let generation = try store.generation(of: "key")
    try store.lock("key")
    try store.touch("key")
    try store.unlock("key")
    #expect(try store.load("key") != nil)
    #expect(try store.generation(of: "key") == generation)
  }

  /// A process that only reads would otherwise miss the changes recorded in a new control file.
  @Test func aControlFileThatWasDeletedIsNotAskedForLongerThanASecond() throws {
    try store.store(Data([1]), for: "key")
    let reader = try BlobStore(directory: directory.path.appending("cache"))
    #expect(try reader.generation(of: "key") == store.generation(of: "key"))
    try FileManager.default.removeItem(at: directory.url("cache/.blobcache"))
    try store.store(Data([2]), for: "key")
    Thread.sleep(forTimeInterval: 1.1)
    #expect(try reader.generation(of: "key") == store.generation(of: "key"))
  }

  /// The control file was moved, or other links to it from backups exist. It is trusted until the next check of the
  /// root.
  @Test(arguments: 0...2) func aControlFileThatHasLostItsNameIsReplaced(otherNames: Int) throws {
    try store.store(Data([1]), for: "key")
    let file = directory.url("cache/.blobcache")
    for number in 0..<otherNames { try FileManager.default.linkItem(at: file, to: directory.url("backup\(number)")) }
    let other = try BlobStore(directory: directory.path.appending("cache"))
    _ = try other.lock("key")
    if otherNames > 0 {
      try FileManager.default.removeItem(at: file)
    } else {
      try FileManager.default.moveItem(at: file, to: directory.url("backup"))
    }
    for each in [store, other] { each.checkRoot() }
    try store.store(Data([2]), for: "key")
    #expect(FileManager.default.fileExists(atPath: file.path))
    _ = try other.lock("key")
    #expect(try other.generation(of: "key") == store.generation(of: "key"))
    try store.store(Data([3]), for: "key")
    #expect(try other.generation(of: "key") == store.generation(of: "key"))
  }

  @Test func anotherStoreOfTheDirectorySeesTheSame() throws {
    try store.store(Data([1]), for: "key")
    let other = try BlobStore(directory: directory.path.appending("cache"))
    let generation = try #require(try other.generation(of: "key"))
    try store.store(Data([2]), for: "key")
    #expect(try other.generation(of: "key") != generation)
    #expect(try other.generation(of: "key") == store.generation(of: "key"))
  }
}
