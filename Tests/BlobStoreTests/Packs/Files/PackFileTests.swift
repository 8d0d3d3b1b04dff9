import Dispatch
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

@Suite struct PackFileTests {
  let bench: PackBench

  init() throws { bench = try PackBench() }

  private func word(_ offset: Int) throws -> UInt64 {
    let file = try FileHandle(forReadingFrom: URL(filePath: bench.path("p-0")))
    try file.seek(toOffset: UInt64(offset))
    return try #require(try file.read(upToCount: 8)).reversed().reduce(0) { $0 << 8 | UInt64($1) }
  }

  @Test func aNewPackIsAHeadWithoutRecords() throws {
    #expect(try PackFile.open(0, in: bench.packs) == nil)
    let pack = try bench.pack()
    let status = try #require(try bench.cache.state(".packs/p-0"))
    #expect(status.size == 2_166_784 && status.permissions == 0o600)
    #expect(try bytes(ofFile: bench.path("p-0")).starts(with: Array("BLOBPACK".utf8)))
    #expect(try [8, 16, 24, 32, 40].map(word) == [1, 0, 1024, 1_032_192, pack.identifier])
    #expect(pack.firstFreeChunk() == 0 && pack.number == 0)
    #expect(pack.entry(ofChunk: 1023).state == .free)
    #expect((0..<4).allSatisfy { pack.deadBits(ofChunk: 1023).salt(ofQuarter: $0) == nil })
    #expect(try pack.isCurrent(in: bench.packs))
    #expect(try bench.fileNames() == ["p-0"])
  }

  @Test func onlyTheFirstMakerMakesIt() throws {
    #expect(try PackFile.make(3, in: bench.packs, names: bench.names))
    let pack = try bench.pack(3)
    #expect(try !PackFile.make(3, in: bench.packs, names: bench.names))
    #expect(try bench.pack(3).identifier == pack.identifier)
    #expect(try bench.fileNames() == ["p-3"])
  }

  @Test func ofMakersAtOnceOneWins() throws {
    let made = CallCount()
    DispatchQueue.concurrentPerform(iterations: 4) { _ in
      #expect(throws: Never.self) {
        if try PackFile.make(0, in: bench.packs, names: bench.names) { made.add(1) }
      }
    }
    #expect(made.value == 1)
    #expect(try bench.fileNames() == ["p-0"])
  }

  @Test func aReplacedPackIsNoticed() throws {
    let pack = try bench.pack()
    try FileManager.default.removeItem(atPath: bench.path("p-0"))
    #expect(try !pack.isCurrent(in: bench.packs))
    #expect(try bench.pack().isCurrent(in: bench.packs))
    #expect(try !pack.isCurrent(in: bench.packs))
  }

  // MARK: Chunks

  private func read(_ byteCount: Int, at address: PackAddress, of pack: PackFile) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 1, count: byteCount)
    let count = try bytes.withUnsafeMutableBytes { try pack.read(into: $0, at: address) }
    return Array(bytes.prefix(count))
  }

  @Test(arguments: [(0, 0, 64), (0, 512, 32_752), (1, 1_032_128, 64), (1023, 8, 400)])
  func recordsAreReadWhereTheyWereWritten(chunk: Int, offset: Int, byteCount: Int) throws {
    let pack = try bench.pack()
    let address = PackAddress(pack: 0, chunk: chunk, offset: offset)
    let record = [UInt8](payload(byteCount))
    try pack.write(record.span.bytes, at: address)
    #expect(try read(byteCount, at: address, of: pack) == record)
    #expect(try pack.entry(ofChunk: chunk).state == .free && bench.pack().identifier == pack.identifier)
    try pack.synchronize()
  }

  @Test(arguments: [0, 1, 1023]) func whatWasNeverWrittenIsNotThere(chunk: Int) throws {
    let pack = try bench.pack()
    #expect(try read(100, at: PackAddress(pack: 0, chunk: chunk, offset: 0), of: pack) == [])
  }

  /// An entry of an index may contain any address.
  @Test func anyAddressCanBeRead() throws {
    let pack = try bench.pack()
    try pack.write([UInt8](payload(20_000)).span.bytes, at: PackAddress(pack: 0, chunk: 1, offset: 0))
    #expect(try read(100, at: PackAddress(rawValue: .max), of: pack) == [])
    // The second chunk follows the end of the first one.
    #expect(try read(100, at: PackAddress(rawValue: 1 << 17 - 1), of: pack).count == 100)
  }

  /// The addresses are past a chunk's end, across a sector, and in an area without records.
  @Test(arguments: [UInt64.max, 59, 0]) func noRecordBeginsAtAnyAddress(number: UInt64) throws {
    let pack = try bench.pack()
    #expect(try pack.head(of: PackAddress(rawValue: number & (1 << 17 - 1))) == nil)
  }

  @Test func anAllocatedChunkKeepsWhatItHolds() throws {
    let pack = try bench.pack()
    let (first, second) = (PackAddress(pack: 0, chunk: 2, offset: 64), PackAddress(pack: 0, chunk: 1, offset: 64))
    try pack.allocate(chunk: 2)
    #if os(Linux)
      #expect(try bench.cache.state(".packs/p-0")?.size == 2_166_784 + 3 * 1_032_192)
    #endif
    let record = [UInt8](payload(200))
    try pack.write(record.span.bytes, at: first)
    try pack.allocate(chunk: 1)
    try pack.allocate(chunk: 2)
    #if os(Linux)
      #expect(try bench.cache.state(".packs/p-0")?.size == 2_166_784 + 3 * 1_032_192)
    #endif
    try pack.write(record.span.bytes, at: second)
    #expect(try read(200, at: first, of: pack) == record)
    guard try pack.punchHole(chunk: 2) else { return }
    #expect(try read(200, at: first, of: pack) == [UInt8](repeating: 0, count: 200))
    #expect(try read(200, at: second, of: pack) == record)
  }

  @Test func aChunkKeepsBlocksThatTheFileSystemDoesNotTakeBack() throws {
    let plan = FaultPlan()
    let pack = try PackBench(files: plan.files()).pack()
    try pack.allocate(chunk: 0)
    plan.arm(FaultPlan.Fault(.notSupported, call: 1, of: [.punchHole]))
    #expect(try !pack.punchHole(chunk: 0))
    #expect(pack.entry(ofChunk: 0).hasBlocks)
  }

  @Test(arguments: [SystemCall.allocateRange, .punchHole, .sync, .write, .read], [Errno.noSpace, .ioError])
  func errorsOfChunksNameThePack(call: SystemCall, errno: Errno) throws {
    let plan = FaultPlan()
    let bench = try PackBench(files: plan.files())
    let pack = try bench.pack()
    plan.arm(FaultPlan.Fault(errno, call: 1, of: [call]))
    let error = #expect(throws: FileError.self) {
      try pack.allocate(chunk: 0)
      try pack.write([UInt8](repeating: 1, count: 64).span.bytes, at: PackAddress(pack: 0, chunk: 0, offset: 0))
      try pack.synchronize()
      _ = try read(64, at: PackAddress(pack: 0, chunk: 0, offset: 0), of: pack)
      _ = try pack.punchHole(chunk: 0)
    }
    #expect(error?.call == call && error?.errno == errno && error?.path.lastComponent == "p-0")
  }
}
