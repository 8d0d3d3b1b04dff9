import BlobRecord
import BlobStore
import Foundation
import SystemPackage
import TestSupport
import Testing

#if canImport(Glibc)
  import Glibc
#endif

/// Spec/Semantics.md, Y8, Y30: payloads with sizes around every boundary, stored and read as a whole and by ranges.
@Suite(.timeLimit(.minutes(30))) struct BoundarySizeTests {
  let cache: Cache
  var output: FilePath { cache.outside.path.appending("output") }

  init() throws { cache = try Cache() }

  private static let sizes = [
    0, 1, 63, 64, 65, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 1,
  ]

  private func content() throws -> Data { try Data(contentsOf: URL(filePath: output.string)) }

  /// Returns the ranges between any two boundaries of a payload.
  private func ranges(_ byteCount: Int) -> [Range<Int>] {
    let ends = Set((Self.sizes + [byteCount / 2, byteCount - 1, byteCount]).filter { (0...byteCount).contains($0) })
    return ends.flatMap { start in ends.filter { $0 >= start }.map { start..<$0 } }
  }

  /// Y30: exports are compared with the bytes in memory.
  @Test(arguments: sizes) func exportsAreThoseOfTheModel(byteCount: Int) throws {
    let store = try cache.store()
    let bytes = payload(byteCount)
    try bytes.write(to: URL(filePath: cache.outside.path.appending("source").string))
    let stored = try store.store(contentsOf: cache.outside.path.appending("source"), for: "key", ttl: .seconds(50))
    #expect(stored == Int64(byteCount))
    let exported = try store.export("key", to: output)
    #expect(exported == Int64(byteCount))
    #expect(try content() == bytes)
    let reader = try #require(try store.openReader(for: "key"))
    for range in ranges(byteCount) {
      let wanted = Int64(range.lowerBound)..<Int64(range.upperBound)
      #expect(try reader.read(wanted) == bytes[range])
      // Exporting a subset of the ranges is sufficient.
      guard range.upperBound >= byteCount - 1 || range.count < 2 else { continue }
      try reader.export(wanted, to: output)
      #expect(try content() == bytes[range])
    }
    let size = Int64(byteCount)
    for range in [-1..<0, 0..<size + 1, size + 1..<size + 2, Int64.min..<Int64.max] as [Range<Int64>] {
      expect(.invalidRange) { try reader.export(range, to: output) }
      expect(.invalidRange) { _ = try reader.read(range) }
    }
  }

  /// Y30: ranges on both sides of 4 GiB, and at the end of a sparse blob of 5 GiB.
  @Test func exportsRangesOfFiveGibibytes() throws {
    let size: Int64 = 5 << 30
    let header = RecordHeader(updateTime: UInt64(cache.now), payloadSize: UInt64(size))
    try cache.write(header.encoded, to: "ke/key")
    try check(truncate(cache.path("ke/key"), off_t(64 + size)), "truncate")
    let file = try FileDescriptor.open(FilePath(cache.path("ke/key")), .readWrite, options: .closeOnExec)
    try file.closeAfter {
      for end in [4 << 30, size] { _ = try file.writeAll(toAbsoluteOffset: 64 + end - 3, [1, 2, 3]) }
    }
    let reader = try #require(try cache.store().openReader(for: "key"))
    func export(_ range: Range<Int64>) throws -> [UInt8] {
      try reader.export(range, to: output)
      return try Array(content())
    }
    #expect(try export(size - 4..<size) == [0, 1, 2, 3])
    #expect(try export((4 << 30) - 3..<(4 << 30) + 1) == [1, 2, 3, 0])
    let large = try export((4 << 30) - (1 << 20)..<(4 << 30) + (1 << 20))
    #expect(large.count == 2 << 20 && large[(1 << 20) - 3..<(1 << 20) + 1] == [1, 2, 3, 0])
    expect(.invalidRange) { _ = try export(size - 1..<size + 1) }
  }

  #if os(Linux)
    /// L6a: a load allocates the payload's memory once; each new page is a page fault of the thread that fills it.
    @Test(arguments: [(1 << 20) + 1, 32 << 20]) func aLoadTakesTheMemoryOnce(byteCount: Int) throws {
      let store = try cache.store()
      try store.store(payload(byteCount), for: "key")
      _ = try store.load("key")
      let pages = byteCount / Int(sysconf(Int32(_SC_PAGESIZE)))
      let before = Self.faults()
      let blob = try #require(try store.load("key"))
      let count = Self.faults() - before
      #expect(count < pages * 3 / 2 + 64, "\(pages) pages")
      #expect(blob.payload.count == byteCount)
    }

    /// Returns the number of page faults of this thread.
    private static func faults() -> Int {
      var usage = rusage()
      let thisThread: Int32 = 1
      _ = getrusage(thisThread, &usage)
      return Int(usage.ru_minflt)
    }
  #endif
}
