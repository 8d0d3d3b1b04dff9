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
    store = try BlobStore(directory: directory.path.appending("cache"), configuration: configuration)
  }

  @Test func thereIsNoneBeforeTheFirstChange() throws {
    #expect(try store.generation(of: "key") == nil)
    #expect(try store.load("key") == nil)
    #expect(try store.generation(of: "key") == nil)
  }

  @Test func changesOfThePayloadChangeItAndLeaveItEven() throws {
    var seen: Set<UInt32> = []
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

  /// A process died while it changed the payload of a key of this stripe: memory tiers must not believe what they have.
  @Test func anOddGenerationIsEvenAndAnotherAfterTheNextChange() throws {
    try store.store(Data([1]), for: "key")
    let before = try #require(try store.generation(of: "key"))
    let file = try FileHandle(forWritingTo: directory.url("cache/.blobcache"))
    try file.seek(toOffset: UInt64(ControlLayout.generationOffset(of: try store.digest(of: "key"))))
    try file.write(contentsOf: withUnsafeBytes(of: (before + 1).littleEndian) { Data($0) })
    try file.close()
    #expect(try store.generation(of: "key") == before + 1)
    try store.store(Data([2]), for: "key")
    let after = try #require(try store.generation(of: "key"))
    #expect(after % 2 == 0)
    #expect(after != before)
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

  /// Whoever only reads would never learn of the changes that others note in the new file.
  @Test func aControlFileThatWasDeletedIsNotAskedForLongerThanASecond() throws {
    try store.store(Data([1]), for: "key")
    let reader = try BlobStore(directory: directory.path.appending("cache"))
    #expect(try reader.generation(of: "key") == store.generation(of: "key"))
    try FileManager.default.removeItem(at: directory.url("cache/.blobcache"))
    try store.store(Data([2]), for: "key")
    Thread.sleep(forTimeInterval: 1.1)
    #expect(try reader.generation(of: "key") == store.generation(of: "key"))
  }

  /// Moved away, or kept alive by the other name that a backup has given it.
  @Test(arguments: [true, false]) func aControlFileThatHasLostItsNameIsReplaced(hasOtherName: Bool) throws {
    try store.store(Data([1]), for: "key")
    let file = directory.url("cache/.blobcache")
    if hasOtherName { try FileManager.default.linkItem(at: file, to: directory.url("backup")) }
    let other = try BlobStore(directory: directory.path.appending("cache"))
    _ = try other.lock("key")
    if hasOtherName {
      try FileManager.default.removeItem(at: file)
    } else {
      try FileManager.default.moveItem(at: file, to: directory.url("backup"))
      Thread.sleep(forTimeInterval: 1.1)
    }
    try store.store(Data([2]), for: "key")
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
