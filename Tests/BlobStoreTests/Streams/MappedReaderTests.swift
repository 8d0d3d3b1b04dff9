import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Y9: no operation of this library removes pages from a mapping or bytes from a reader.
@Suite(.timeLimit(.minutes(30))) struct MappedReaderTests {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// A change to a mapped blob or its cache.
  enum Change: String, CaseIterable {
    case replaced, replacedBySmaller, replacedByWriter, removed, purged, wiped, expired, evicted, trimmed, touched,
      locked
    case extended, binFilled, verified
  }

  private static let byteCount = 70_000

  private func make(_ change: Change, _ store: BlobStore) throws {
    switch change {
    case .replaced: for seed in 2..<8 as Range<UInt64> { try store.store(payload(Self.byteCount, seed), for: "key") }
    case .replacedBySmaller: for size in [0, 1, 4096, 69_999] { try store.store(payload(size, 3), for: "key") }
    case .replacedByWriter:
      for seed in 2..<6 as Range<UInt64> {
        var writer = try store.openWriter(for: "key", expectedSize: Int64(Self.byteCount))
        try writer.append(payload(Self.byteCount, seed))
        try writer.commit()
      }
    case .removed: try store.remove("key")
    case .purged: try store.remove("key", purging: true)
    case .wiped: try store.removeAll(.all)
    case .expired:
      cache.clock.advance(by: 1_000_000)
      #expect(try store.collect().expired > 0)
    case .evicted:
      let other = try cache.store { $0.limits.size = 1 }
      #expect(try other.collect().evicted > 0)
    case .trimmed: #expect(try store.trim(to: .byteCount(0)).evicted > 0)
    case .touched:
      cache.clock.advance(by: 5)
      try store.touch("key")
    case .locked: for _ in 0..<3 { try store.lock("key") }
    case .extended:
      for size in [4000, 1] { try store.setExtendedData(payload(size, 4), for: "key") }
    case .binFilled:
      // The file is moved to the bin, where stores of the same size search for a file to overwrite.
      try store.remove("key")
      for number in 0..<8 { try store.store(payload(Self.byteCount, 5), for: BlobKey("other \(number)")) }
      for number in 0..<8 { try store.remove(BlobKey("other \(number)")) }
      for number in 0..<8 { try store.store(payload(Self.byteCount - number, 6), for: BlobKey("third \(number)")) }
    case .verified: #expect(try store.verify(repairing: .remove).damagedFiles == 0)
    }
  }

  /// Each byte is read before and after the change, because a missing page would end the process with SIGBUS.
  @Test(arguments: Change.allCases) func mappedBytesStay(change: Change) throws {
    let store = try cache.store()
    try store.store(payload(1), for: "first")
    let bytes = payload(Self.byteCount)
    try store.store(bytes, for: "key", ttl: .seconds(1000))
    let reader = try #require(try store.openReader(for: "key"))
    try reader.withMappedBytes { mapped in
      #expect(mapped.withUnsafeBytes { Data($0) } == bytes)
      try make(change, store)
      #expect(mapped.withUnsafeBytes { Data($0) } == bytes)
    }
    #expect(try reader.read(0..<Int64(Self.byteCount)) == bytes)
    try reader.verify()
  }

  /// Two random consecutive changes, with several mappings.
  @Test func mappedBytesStayUnderManyChanges() throws {
    let store = try cache.store()
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "mappedBytesStayUnderManyChanges"))
    // Some changes are left out, because they check counts or require a record that the first change may have removed.
    let changes = Change.allCases.filter { ![.expired, .evicted, .trimmed, .verified].contains($0) }
    for round in 0..<20 {
      let first = payload(Self.byteCount, UInt64(100 + round))
      try store.store(first, for: "key", ttl: .seconds(1000))
      let reader = try #require(try store.openReader(for: "key"))
      try reader.withMappedBytes { mapped in
        try make(changes.randomElement(using: &generator)!, store)
        let second = payload(Self.byteCount, UInt64(200 + round))
        try store.store(second, for: "key", ttl: .seconds(1000))
        let other = try #require(try store.openReader(for: "key"))
        try other.withMappedBytes { others in
          try make(changes.randomElement(using: &generator)!, store)
          #expect(others.withUnsafeBytes { Data($0) } == second)
          #expect(mapped.withUnsafeBytes { Data($0) } == first)
        }
      }
    }
  }

  // MARK: Large blobs

  /// A sparse blob of 5 GiB, and ranges around each 32-bit boundary.
  @Test func rangesOfASparseBlob() throws {
    let store = try cache.store { $0.limits.payload = .max }
    try store.store(payload(1), for: "key")
    let size = Int64(5) << 30
    let header = RecordHeader(updateTime: UInt64(cache.now), payloadSize: UInt64(size))
    let file = try FileDescriptor.open(cache.path("ke/key"), .readWrite, options: [.truncate, .closeOnExec])
    let marks: [Int64] = [0, (1 << 31) - 1, 1 << 31, (1 << 32) - 65, (1 << 32) - 64, (1 << 32) - 1, 1 << 32, size - 1]
    try file.closeAfter {
      _ = try header.encodedBytes.withUnsafeBytes { try file.writeAll(toAbsoluteOffset: 0, $0) }
      try file.resize(to: 64 + size)
      for (number, mark) in marks.enumerated() {
        _ = try file.writeAll(toAbsoluteOffset: 64 + mark, [UInt8(number + 1)])
      }
    }
    let reader = try #require(try store.openReader(for: "key"))
    #expect(reader.byteCount == size)
    func expected(_ range: Range<Int64>) -> Data {
      var bytes = Data(count: range.count)
      for (number, mark) in marks.enumerated() where range.contains(mark) {
        bytes[Int(mark - range.lowerBound)] = UInt8(number + 1)
      }
      return bytes
    }
    let output = cache.outside.path.appending("output")
    for mark in marks {
      for (before, after) in [(0, 1), (1, 1), (70, 70), (65_536, 10)] as [(Int64, Int64)] {
        let range = max(0, mark - before)..<min(size, mark + after)
        #expect(try reader.read(range) == expected(range))
        try reader.export(range, to: output)
        #expect(try Data(contentsOf: URL(filePath: output.string)) == expected(range))
      }
    }
    #expect(try reader.read(size..<size).isEmpty)
    expect(.invalidRange) { _ = try reader.read(size - 1..<size + 1) }
    let suffix = try #require(ByteRanges("-10")?.resolved(byteCount: reader.byteCount).first)
    #expect(try reader.read(suffix) == expected(size - 10..<size))
    try reader.withMappedBytes(verifying: false) { mapped in
      for (number, mark) in marks.enumerated() {
        #expect(mapped.withUnsafeBytes { $0[Int(mark)] } == UInt8(number + 1))
      }
    }
  }
}
