import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/ControlFile.md, "Pages": a cache that was copied to a volume, which is then full, ends no program.
@Suite(.serialized) struct SparseCopyTests {
  @Test(.canMount(.ext4), arguments: Kind.allCases) func ext4(_ kind: Kind) throws { try Self.run(on: .ext4, kind) }
  @Test(.canMount(.xfs), arguments: Kind.allCases) func xfs(_ kind: Kind) throws { try Self.run(on: .xfs, kind) }
  @Test(.canMount(.tmpfs), arguments: Kind.allCases) func tmpfs(_ kind: Kind) throws { try Self.run(on: .tmpfs, kind) }

  enum Kind: CaseIterable {
    /// Zeros became holes.
    case sparse
    /// The files share their blocks with the original, where the file system has such copies.
    case sharedBlocks

    var option: String {
      switch self {
      case .sparse: "--sparse=always"
      case .sharedBlocks: "--reflink=auto"
      }
    }
  }

  private static func run(on fileSystem: Volume.FileSystem, _ kind: Kind) throws {
    let volume = try Shortage.space.volume(fileSystem)
    let (original, copy) = (volume.mountPoint + "/original", volume.cache)
    let first = try store(in: original)
    for number in 0..<8 { try first.store(payload(number), for: BlobKey("\(number)"), ttl: .seconds(1_000_000)) }
    try first.collect()
    try ChildProcess.runSuccessfully(["cp", "-a", kind.option, original, copy])
    try Shortage.space.begin(on: volume)
    // Each error is that of a full volume. A signal would end this program.
    let copied = try store(in: copy)
    for number in 0..<8 {
      let key = BlobKey("\(number)")
      #expect(try copied.load(key)?.payload == payload(number))
      expectRoomOnly { _ = try copied.touch(key) }
      expectRoomOnly { try copied.lock(key) == .done ? _ = try copied.unlock(key) : () }
    }
    for number in 100..<120 { expectRoomOnly { try copied.store(payload(number), for: BlobKey("\(number)")) } }
    expectRoomOnly { _ = try copied.collect() }
    expectRoomOnly { _ = try copied.usage() }
    if kind == .sparse {
      // What is needed to remove a record is no hole.
      for number in 0..<8 { #expect(try copied.remove(BlobKey("\(number)")) == .done) }
    }
    try Shortage.space.end(on: volume)
    let later = try store(in: copy)
    for number in 100..<108 { try later.store(payload(number), for: BlobKey("\(number)")) }
    try later.removeAll(.all)
    try later.collect()
    #expect(try later.usageEstimate()?.records == 0)
    #expect(try store(in: original).usage().records == 8)
  }

  private static func store(in directory: String) throws -> BlobStore {
    try BlobStore(directory: FilePath(directory), configuration: BlobStore.Configuration())
  }

  private static func payload(_ number: Int) -> Data { Data(repeating: UInt8(number), count: 100 + number) }

  private static func expectRoomOnly(_ body: () throws -> Void) {
    do {
      try body()
    } catch let error as BlobStoreError {
      #expect(error.errno == .noSpace, "\(error)")
    } catch {
      Issue.record(error)
    }
  }
}
