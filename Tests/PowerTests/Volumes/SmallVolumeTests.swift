import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, M6 and M8: a volume that is smaller than the size limit.
@Suite(.serialized) struct SmallVolumeTests {
  private static let mebibyte: Int64 = 1 << 20
  private static let blob = Data(repeating: 7, count: 1 << 20)

  private func volume() throws -> Volume { try Volume(.tmpfs, megabytes: 0, mountOptions: "size=64m") }

  private func store(
    on volume: Volume, limit: Int64, _ change: (inout BlobStore.Configuration) -> Void = { _ in }
  ) throws -> BlobStore {
    var configuration = BlobStore.Configuration()
    configuration.limits.size = limit
    configuration.access.lockTimeout = .seconds(300)
    change(&configuration)
    return try BlobStore(directory: FilePath(volume.cache), configuration: configuration)
  }

  /// Size limits far above and just below the volume's size, with and without recycling and a free space floor.
  @Test(
    .canMount(.tmpfs),
    arguments: [1024, 60],
    [(.automatic, nil), (.off, nil), (.automatic, 0), (.off, 0)] as [(BlobStore.Recycling, Int64?)])
  func allIsStored(mebibytes: Int64, setting: (recycling: BlobStore.Recycling, floor: Int64?)) throws {
    let volume = try volume()
    let store = try store(on: volume, limit: mebibytes * Self.mebibyte) {
      $0.recycling = setting.recycling
      $0.limits.freeSpaceFloor = setting.floor
    }
    var failures: [String] = []
    for number in 0..<400 {
      do throws(BlobStoreError) {
        try store.store(Self.blob, for: BlobKey("key \(number)"), ttl: .seconds(1_000_000))
      } catch {
        failures.append("\(number): \(error)")
      }
    }
    store.waitForCollection()
    #expect(failures.isEmpty, "\(failures.count) failed: \(failures.prefix(3))")
    #expect(try store.load("key 399")?.payload == Self.blob)
    let usage = try store.usage()
    #expect(usage.records > 10 && usage.records <= 63 && usage.temporaryFiles == 0)
  }

  /// Small packed records, twice as many as the volume holds.
  @Test(
    .canMount(.tmpfs), arguments: [1024, 60],
    [(nil, nil), (nil, 1_000_000), (0, nil), (0, 1_000_000)] as [(Int64?, Int64?)])
  func allIsPacked(mebibytes: Int64, setting: (floor: Int64?, ttl: Int64?)) throws {
    let volume = try volume()
    let store = try store(on: volume, limit: mebibytes * Self.mebibyte) {
      $0.limits.freeSpaceFloor = setting.floor
      $0.packing = .upTo(8192)
    }
    let payload = Data(repeating: 7, count: 4000)
    let count = 30_000
    var failures: [String] = []
    for number in 0..<count {
      do throws(BlobStoreError) {
        try store.store(payload, for: BlobKey("key \(number)"), ttl: setting.ttl.map { .seconds($0) })
      } catch {
        failures.append("\(number): \(error)")
      }
    }
    store.waitForCollection()
    #expect(failures.isEmpty, "\(failures.count) failed: \(failures.prefix(3))")
    #expect(try store.load(BlobKey("key \(count - 1)"))?.payload == payload)
    let usage = try store.usage()
    #expect(usage.records > 3000 && usage.records <= 16_000 && usage.temporaryFiles == 0)
    // A store that finds no space for a chunk creates a file. Most stores find a chunk.
    #expect(usage.packs.records > usage.records / 2)
  }

  /// Several threads that all find the volume full.
  @Test(.canMount(.tmpfs), arguments: [1024, 60]) func allIsStoredAtOnce(mebibytes: Int64) throws {
    let volume = try volume()
    let store = try store(on: volume, limit: mebibytes * Self.mebibyte)
    DispatchQueue.concurrentPerform(iterations: 4) { thread in
      for number in 0..<100 {
        #expect(throws: Never.self) {
          try store.store(Self.blob, for: BlobKey("\(thread) \(number)"), ttl: .seconds(1_000_000))
        }
      }
    }
    store.waitForCollection()
    #expect(try store.usage().records > 10)
  }

  /// The payload comes from a descriptor that cannot be read again.
  @Test(.canMount(.tmpfs)) func streamsAreStored() throws {
    let volume = try volume()
    let store = try store(on: volume, limit: 1 << 30)
    for number in 0..<100 {
      let pipe = Pipe()
      let writer = Thread {
        // A store that fails closes the reading end of the pipe.
        try? pipe.fileHandleForWriting.write(contentsOf: Self.blob)
        try? pipe.fileHandleForWriting.close()
      }
      writer.start()
      let input = FileDescriptor(rawValue: pipe.fileHandleForReading.fileDescriptor)
      try store.store(contentsOf: input, for: BlobKey("key \(number)"), ttl: .seconds(1_000_000))
    }
    #expect(try store.load("key 99")?.payload == Self.blob)
  }

  /// A payload that the empty volume could not hold evicts no record.
  @Test(.canMount(.tmpfs)) func whatNeverFitsEvictsNothing() throws {
    let volume = try volume()
    let store = try store(on: volume, limit: 1 << 30) { $0.limits.freeSpaceFloor = 0 }
    for number in 0..<10 { try store.store(Self.blob, for: BlobKey("key \(number)"), ttl: .seconds(1_000_000)) }
    let error = #expect(throws: BlobStoreError.self) {
      try store.store(Data(count: 65 << 20), for: "large", ttl: .seconds(1_000_000))
    }
    #expect(error?.errno == .noSpace)
    #expect(try store.usage().records == 10)
  }

  /// The floor is kept while there is free space, and not only on a full volume.
  @Test(.canMount(.tmpfs)) func theFloorIsKept() throws {
    let volume = try volume()
    let store = try store(on: volume, limit: 1 << 30) {
      $0.limits.freeSpaceFloor = 32 << 20
      $0.recycling = .off
    }
    for number in 0..<60 {
      try store.store(Self.blob, for: BlobKey("key \(number)"), ttl: .seconds(1_000_000))
      store.waitForCollection()
      var space = statvfs()
      #expect(statvfs(volume.mountPoint, &space) == 0)
      // The free space is checked once per mebibyte.
      #expect(Int64(space.f_bavail) * Int64(space.f_frsize) >= 30 << 20, "after \(number)")
    }
  }
}
