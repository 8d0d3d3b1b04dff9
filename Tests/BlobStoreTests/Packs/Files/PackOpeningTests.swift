import BlobRecord
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// Files that are not valid packs or indexes are refused without a trap.
@Suite struct PackOpeningTests {
  let bench: PackBench

  init() throws { bench = try PackBench() }

  @discardableResult
  private func expectDamage(_ reason: String) throws -> BlobStoreError? {
    let error = expect(.damaged) { _ = try PackFile.open(0, in: bench.packs) }
    #expect(error?.message.contains(reason) == true, "\(error.map { "\($0)" } ?? "")")
    #expect(error?.path?.lastComponent == "p-0")
    return error
  }

  @Test func eachByteOfAHeadIsLookedAt() throws {
    _ = try bench.pack()
    for offset in 0..<64 {
      try bench.change("p-0") { $0[offset] ^= 0x40 }
      // A later version belongs to another program.
      expect(8..<16 ~= offset ? .laterVersion : .damaged) { _ = try PackFile.open(0, in: bench.packs) }
      try bench.change("p-0") { $0[offset] ^= 0x40 }
    }
    #expect(try PackFile.open(0, in: bench.packs) != nil)
  }

  @Test func anEarlierVersionIsDamaged() throws {
    _ = try bench.pack()
    try bench.change("p-0") { $0[8] = 0 }
    try expectDamage("damaged")
  }

  @Test(arguments: [0, 8, 63, 64, 4096, 2_166_783]) func aFileThatIsShorterThanItsHeadIsDamaged(length: Int) throws {
    _ = try bench.pack()
    try bench.change("p-0") { $0.removeLast($0.count - length) }
    try expectDamage("damaged")
  }

  @Test func aPackOfAnotherNumberIsRefused() throws {
    _ = try bench.pack(1)
    try FileManager.default.moveItem(atPath: bench.path("p-1"), toPath: bench.path("p-0"))
    try expectDamage("another number")
  }

  @Test func aPackInThePlaceOfAnotherIsRefused() throws {
    let pack = try bench.pack()
    #expect(try PackFile.open(0, in: bench.packs, identifier: pack.identifier) != nil)
    let error = expect(.damaged) { _ = try PackFile.open(0, in: bench.packs, identifier: ~pack.identifier) }
    #expect(error?.message.contains("has been put in its place") == true)
  }

  /// The CRC is valid, as in a version with a different chunk size.
  @Test(arguments: [24, 32]) func otherChunksAreRefused(offset: Int) throws {
    _ = try bench.pack()
    try bench.change("p-0") { bytes in
      bytes[offset] ^= 1
      let crc = CRC32.checksum(of: bytes.span.bytes.extracting(0..<60))
      for index in 0..<4 { bytes[60 + index] = UInt8(truncatingIfNeeded: crc >> (8 * UInt32(index))) }
    }
    try expectDamage("another size or count")
  }

  @Test(arguments: ["p-0", "index"]) func whatIsNoFileIsRefused(name: String) throws {
    try FileManager.default.createDirectory(atPath: bench.path(name), withIntermediateDirectories: false)
    if name == "p-0" {
      expect(.foreignFile) { _ = try PackFile.open(0, in: bench.packs) }
    } else if case .unusable(let reason) = try PackIndex.open(in: bench.packs) {
      #expect(reason.contains("no file"))
    } else {
      Issue.record("it was opened")
    }
  }

  /// A head with random bytes after a valid header: none of its values is trusted.
  @Test func anyHeadCanBeAskedEverything() throws {
    var random = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "anyHeadCanBeAskedEverything"))
    let pack = try bench.pack()
    try bench.change("p-0") { $0.replaceSubrange(64..<$0.count, with: random.bytes($0.count - 64)) }
    let hostile = try #require(try PackFile.open(0, in: bench.packs, identifier: pack.identifier))
    _ = hostile.firstFreeChunk()
    for chunk in 0..<1024 {
      let entry = hostile.entry(ofChunk: chunk)
      let bits = hostile.deadBits(ofChunk: chunk)
      let owner = entry.state.owner
      #expect(0...1_032_192 ~= entry.end && entry.inFlight >= 0)
      if let place = entry.reserve(64, owner: owner) { #expect(0...1_032_128 ~= place) }
      entry.endFlight()
      entry.countLive(records: 1, bytes: .max)
      entry.noteExpiry(random.next())
      _ = (entry.seal(owner: owner), entry.liveByteCount, entry.liveRecordCount, entry.chunkClass)
      for quarter in 0..<4 { _ = bits.salt(ofQuarter: quarter) }
      for _ in 0..<10 {
        let address = PackAddress(rawValue: random.next())
        _ = bits.isDead(address)
        bits.set(address, isDead: .random(using: &random))
      }
      entry.endCollection()
      _ = entry.beginCollection() && entry.free() && entry.take(for: .durable, owner: 1, sequence: 2)
    }
    #expect(try PackFile.open(0, in: bench.packs) != nil)
  }

  // MARK: Index

  enum Damage: String, CaseIterable {
    case magic, earlierVersion, number, bucketCount, cut, empty, partOfABucket, longer
  }

  @Test(arguments: Damage.allCases) func aDamagedIndexIsToldFromOthers(damage: Damage) throws {
    _ = try bench.index(buckets: 3)
    try bench.change("index") { bytes in
      switch damage {
      case .magic: bytes[0] ^= 1
      case .earlierVersion: bytes[8] = 0
      case .number: bytes.replaceSubrange(16..<24, with: [UInt8](repeating: 0, count: 8))
      case .bucketCount: bytes[24] ^= 1
      case .cut: bytes.removeLast(64)
      case .empty: bytes = []
      case .partOfABucket: bytes.removeLast(1)
      case .longer: bytes += [UInt8](repeating: 0, count: 64)
      }
    }
    guard case .damaged = try PackIndex.open(in: bench.packs) else {
      Issue.record("it was opened")
      return
    }
  }

  @Test func aLaterIndexIsLeftAlone() throws {
    _ = try bench.index()
    try bench.change("index") { $0[8] = 2 }
    guard case .unusable(let reason) = try PackIndex.open(in: bench.packs) else {
      Issue.record("it was opened")
      return
    }
    #expect(reason.contains("later"))
  }

  // MARK: Faults

  @Test(arguments: ["pack", "index"]) func eachCallOfAMakerMayFail(kind: String) throws {
    for occurrence in 1... {
      let plan = FaultPlan()
      let bench = try PackBench(files: plan.files())
      func make() throws -> Bool {
        kind == "pack"
          ? try PackFile.make(0, in: bench.packs, names: bench.names)
          : try PackIndex.make(bucketCount: 1, boot: .zero, in: bench.packs, names: bench.names)
      }
      plan.arm(FaultPlan.Fault(.ioError, call: occurrence))
      let made = Result { try make() }
      guard let failed = plan.failed.first else {
        #expect(try made.get() && occurrence > 6)
        break
      }
      plan.disarm()
      if case .failure(let error) = made { #expect((error as? FileError)?.errno == .ioError, "\(failed)") }
      let name = kind == "pack" ? "p-0" : "index"
      #expect(try bench.fileNames() == [] || bench.fileNames() == [name], "\(failed)")
      _ = try make()
      #expect(try bench.fileNames() == [name], "\(failed)")
      _ = kind == "pack" ? try bench.pack().firstFreeChunk() : try bench.opened().bucketCount
    }
  }

  @Test func eachCallOfAnOpeningMayFail() throws {
    for occurrence in 1... {
      let plan = FaultPlan()
      let bench = try PackBench(files: plan.files())
      _ = try (bench.pack(), bench.index())
      plan.arm(FaultPlan.Fault(.ioError, call: occurrence))
      let opened = Result { _ = try (PackFile.open(0, in: bench.packs), PackIndex.open(in: bench.packs)) }
      guard let failed = plan.failed.first else {
        #expect(occurrence > 8)
        break
      }
      plan.disarm()
      // At the time of a close, the content is in memory already.
      if failed.kind == .close {
        #expect(throws: Never.self) { try opened.get() }
      } else {
        #expect(throws: FileError.self, "\(failed)") { try opened.get() }
      }
      _ = try (bench.pack(), bench.opened())
    }
  }

  /// The file system does not support mapping.
  @Test func withoutAMappingThereAreNoPacks() throws {
    let plan = FaultPlan()
    let bench = try PackBench(files: plan.files())
    _ = try (bench.pack(), bench.index())
    plan.refuse(.map, .operationNotSupportedByDevice)
    expect(.foreignFile) { _ = try PackFile.open(0, in: bench.packs) }
    guard case .unusable = try PackIndex.open(in: bench.packs) else {
      Issue.record("it was opened")
      return
    }
  }
}
