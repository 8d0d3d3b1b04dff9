import BlobRecord
import BlobStore
import Foundation
import Logging
import SystemPackage
import TestSupport
import Testing

@Suite struct StoreAndLoadTests {
  let directory: TemporaryDirectory
  let clock = ManualClock()

  init() throws {
    directory = try TemporaryDirectory()
  }

  func store(_ change: (inout BlobStore.Configuration) -> Void = { _ in }) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.durability = .none
    let clock = clock
    configuration.now = { clock.now }
    change(&configuration)
    return try BlobStore(directory: directory.path.appending("cache"), configuration: configuration)
  }

  @Test(arguments: [0, 1, 15, 4096, 1 << 20]) func loadsWhatWasStored(byteCount: Int) throws {
    let store = try store()
    var generator = SeededGenerator(seed: 1)
    let payload = Data(generator.bytes(byteCount))
    #expect(try store.load("key") == nil)
    try store.store(payload, for: "key")
    #expect(try store.load("key")?.payload == payload)
    #expect(try store.lock("key") == .done)
    #expect(try store.header(for: "key")?.refCount == 1)
    clock.advance(by: 1000)
    #expect(try store.load("key")?.payload == payload)
    #expect(try store.unlock("key") == .done)
    #expect(try store.unlock("key") == .notLocked)
    #expect(try store.remove("key") == .done)
    #expect(try store.remove("key") == .notFound)
    #expect(try store.load("key") == nil)
    for i in 0..<100 { try store.store(payload, for: "key \(i)", locked: i % 2 == 0) }
    #expect(try store.usage().records == 100)
    #expect(try store.usage().lockedRecords == 50)
    clock.advance(by: 1000)
    let report = try store.collect()
    #expect(report.expired == 50)
    #expect(try store.removeAll(.all).files == 50)
    #expect(try directory.names(in: "cache") == [])
  }
}
