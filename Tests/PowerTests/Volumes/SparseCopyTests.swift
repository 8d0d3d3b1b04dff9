import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

/// Spec/ControlFile.md, "Pages": a cache that was copied to a volume, which is then full, ends no program.
@Suite(.serialized) struct SparseCopyTests {
  @Test(.canMount(.ext4), arguments: Kind.allCases, [false, true]) func ext4(_ kind: Kind, packs: Bool) throws {
    try Self.run(on: .ext4, kind, packs: packs)
  }
  @Test(.canMount(.xfs), arguments: Kind.allCases, [false, true]) func xfs(_ kind: Kind, packs: Bool) throws {
    try Self.run(on: .xfs, kind, packs: packs)
  }
  @Test(.canMount(.tmpfs), arguments: Kind.allCases, [false, true]) func tmpfs(_ kind: Kind, packs: Bool) throws {
    try Self.run(on: .tmpfs, kind, packs: packs)
  }

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

  private static func volume(_ fileSystem: Volume.FileSystem, packs: Bool) throws -> Volume {
    guard packs, fileSystem != .xfs else { return try Shortage.space.volume(fileSystem) }
    return try Volume(fileSystem, megabytes: 48, mountOptions: fileSystem == .tmpfs ? "size=48m" : "")
  }

  private static func run(on fileSystem: Volume.FileSystem, _ kind: Kind, packs: Bool) throws {
    let volume = try volume(fileSystem, packs: packs)
    let (original, copy) = (volume.mountPoint + "/original", volume.cache)
    func store(in directory: String, limit: Int64? = nil) throws -> BlobStore {
      var configuration = BlobStore.Configuration()
      configuration.packing = packs ? .upTo(8192) : .off
      configuration.limits.size = limit
      return try BlobStore(directory: FilePath(directory), configuration: configuration)
    }
    // With a limit, there is a file of uses, too. A copy without one evicts nothing to make room.
    let first = try store(in: original, limit: 1 << 30)
    for number in 0..<8 { try first.store(payload(number), for: BlobKey("\(number)"), ttl: .seconds(1_000_000)) }
    try first.collect()
    #expect(FileManager.default.fileExists(atPath: original + "/.blobcache-uses"))
    #expect(FileManager.default.fileExists(atPath: original + "/.packs/p-0") == packs)
    try ChildProcess.runSuccessfully(["cp", "-a", kind.option, original, copy])
    try Shortage.space.begin(on: volume)
    // Each error is that of a full volume. A signal would end this program.
    let copied = try store(in: copy)
    for number in 0..<8 {
      let key = BlobKey("\(number)")
      if packs {
        // Packs that cannot be mapped are not available.
        expectRoomOnly { if let found = try copied.load(key) { #expect(found.payload == payload(number)) } }
      } else {
        #expect(try copied.load(key)?.payload == payload(number))
      }
      expectRoomOnly { _ = try copied.touch(key) }
      expectRoomOnly { try copied.lock(key) == .done ? _ = try copied.unlock(key) : () }
    }
    for number in 100..<120 { expectRoomOnly { try copied.store(payload(number), for: BlobKey("\(number)")) } }
    expectRoomOnly { _ = try copied.collect() }
    expectRoomOnly { _ = try copied.usage() }
    if kind == .sparse, !packs {
      // What is needed to remove a record is no hole.
      for number in 0..<8 { #expect(try copied.remove(BlobKey("\(number)")) == .done) }
    }
    try Shortage.space.end(on: volume)
    let later = try store(in: copy)
    if packs { for number in 0..<8 { #expect(try later.load(BlobKey("\(number)"))?.payload == payload(number)) } }
    for number in 100..<108 { try later.store(payload(number), for: BlobKey("\(number)")) }
    try later.removeAll(.all)
    try later.collect()
    #expect(try later.usageEstimate()?.records == 0)
    #expect(try store(in: original).usage().records == 8)
  }

  /// On tmpfs, even reading a hole through a mapping takes room.
  @Test(.canMount(.tmpfs), arguments: [false, true]) func aCopyIsReadOnAFullVolumeThatIsReadOnly(packs: Bool) throws {
    let volume = try Self.volume(.tmpfs, packs: packs)
    var configuration = BlobStore.Configuration()
    configuration.packing = packs ? .upTo(8192) : .off
    configuration.limits.size = 1 << 30
    let original = volume.mountPoint + "/original"
    do {
      let first = try BlobStore(directory: FilePath(original), configuration: configuration)
      for number in 0..<8 { try first.store(Self.payload(number), for: BlobKey("\(number)"), ttl: .seconds(1_000_000)) }
      try first.collect()
    }
    try ChildProcess.runSuccessfully(["cp", "-a", "--sparse=always", original, volume.cache])
    try Shortage.space.begin(on: volume)
    try volume.setReadOnly(true)
    do {
      let copied = try BlobStore(directory: FilePath(volume.cache), configuration: configuration)
      for number in 0..<8 {
        try Self.expectRoomOnly(packs) {
          #expect(try copied.load(BlobKey("\(number)"))?.payload == Self.payload(number))
        }
      }
      try Self.expectRoomOnly(packs) { #expect(try copied.usage().records == 8) }
      try Self.expectRoomOnly(packs) { #expect(try copied.records().reduce(0) { count, _ in count + 1 } == 8) }
      try Self.expectRoomOnly(packs) { #expect(try copied.verify().soundRecords == 8) }
    }
    try volume.setReadOnly(false)
    try Shortage.space.end(on: volume)
    let later = try BlobStore(directory: FilePath(volume.cache), configuration: configuration)
    for number in 0..<8 { #expect(try later.load(BlobKey("\(number)"))?.payload == Self.payload(number)) }
  }

  private static func payload(_ number: Int) -> Data { Data(repeating: UInt8(number), count: 100 + number) }

  /// Expects no error if there are no packs, which have to be mapped.
  private static func expectRoomOnly(_ packs: Bool, _ body: () throws -> Void) throws {
    if packs { expectRoomOnly(body) } else { try body() }
  }

  private static func expectRoomOnly(_ body: () throws -> Void) {
    do {
      try body()
    } catch let error as BlobStoreError {
      #expect(error.errno == .noSpace || [.foreignFile, .sharedMemoryRequired].contains(error.code), "\(error)")
    } catch {
      Issue.record(error)
    }
  }
}
