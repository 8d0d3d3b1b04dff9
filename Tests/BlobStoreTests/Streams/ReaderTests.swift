import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Spec/Semantics.md, Y7 to Y11: blobs that are read in parts.
@Suite struct ReaderTests {
  let cache: Cache
  let trace = CallTrace()

  init() throws { cache = try Cache() }

  private static let sizes = [0, 1, 63, 64, 65, 4095, 4096, 4097, (1 << 20) - 1, 1 << 20, (1 << 20) + 1]

  private func pieces(
    _ reader: BlobReader, of range: Range<Int64>? = nil, by pieceSize: Int = 256 << 10
  ) throws -> (bytes: Data, sizes: [Int]) {
    var (bytes, sizes) = (Data(), [Int]())
    try reader.forEachPiece(of: range, pieceSize: pieceSize) { piece in
      bytes.append(piece.withUnsafeBytes { Data($0) })
      sizes.append(piece.byteCount)
    }
    return (bytes, sizes)
  }

  private func mapped(_ reader: BlobReader, verifying: Bool = true) throws -> Data {
    try reader.withMappedBytes(verifying: verifying) { bytes in bytes.withUnsafeBytes { Data($0) } }
  }

  /// Y7: every way of reading returns the same bytes.
  @Test(arguments: sizes) func readsTheBlob(byteCount: Int) throws {
    let store = try cache.store()
    let bytes = payload(byteCount)
    try store.store(bytes, for: "key", ttl: .seconds(77), locks: .one)
    let size = Int64(byteCount)
    let reader = try #require(try store.openReader(for: "key"))
    #expect(try reader.header == cache.header("ke/key"))
    #expect(reader.byteCount == size && reader.key == "key" && !reader.isVerified)
    #expect(try reader.read(0..<size) == bytes)
    #expect(reader.isVerified)
    #expect(try pieces(try #require(try store.openReader(for: "key")), by: 1000).bytes == bytes)
    #expect(try mapped(try #require(try store.openReader(for: "key"))) == bytes)
    let other = try #require(try store.openReader(for: "key"))
    try other.verify()
    #expect(other.isVerified)
  }

  /// Y8: ranges are compared with the payload in memory.
  @Test func rangesAreThoseOfThePayload() throws {
    let store = try cache.store()
    var generator = SeededGenerator(seed: SeededGenerator.announcedSeed(for: "rangesAreThoseOfThePayload"))
    for byteCount in [0, 1, 64, 4097, 300_000] as [Int64] {
      let bytes = payload(Int(byteCount))
      try store.store(bytes, for: "key", ttl: .seconds(50))
      let reader = try #require(try store.openReader(for: "key"))
      for _ in 0..<50 {
        let start = Int64.random(in: 0...byteCount, using: &generator)
        let range = start..<Int64.random(in: start...byteCount, using: &generator)
        let expected = Data(bytes[range.lowerBound..<range.upperBound])
        #expect(try reader.read(range, verifying: Bool.random(using: &generator)) == expected)
        #expect(try pieces(reader, of: range, by: 1 << 12).bytes == expected)
        var memory = [UInt8](repeating: 0, count: range.count + 1)
        var span = memory.mutableSpan
        var raw = span.mutableBytes
        let count = try reader.read(at: start, into: &raw)
        #expect(count == min(range.count + 1, Int(byteCount - start)))
        #expect(Data(memory.prefix(count)) == Data(bytes[Int(start)..<Int(start) + count]))
      }
    }
  }

  /// Y8.
  @Test func piecesHaveTheirSize() throws {
    let store = try cache.store()
    try store.store(payload(1000), for: "key")
    let reader = try #require(try store.openReader(for: "key"))
    #expect(try pieces(reader, by: 300).sizes == [300, 300, 300, 100])
    #expect(try pieces(reader, by: 1000).sizes == [1000])
    #expect(try pieces(reader).sizes == [1000])
    #expect(try pieces(reader, of: 10..<510, by: 250).sizes == [250, 250])
    #expect(try pieces(reader, of: 1000..<1000).sizes.isEmpty)
  }

  /// Y8: ranges outside the payload never return bytes.
  @Test(arguments: [-1..<5, -5 ..< -1, 5..<11, 11..<12, 0..<Int64.max, Int64.min..<0] as [Range<Int64>])
  func rangesOutsideAreErrors(range: Range<Int64>) throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    let reader = try #require(try store.openReader(for: "key"))
    let error = expect(.invalidRange) { _ = try reader.read(range) }
    #expect(error?.operation == "load" && error?.key == "key" && error?.path != nil)
    expect(.invalidRange) { _ = try pieces(reader, of: range) }
  }

  @Test(arguments: [-1, 11, .min, .max] as [Int64]) func offsetsOutsideAreErrors(offset: Int64) throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    let reader = try #require(try store.openReader(for: "key"))
    var memory = [UInt8](repeating: 7, count: 4)
    var span = memory.mutableSpan
    var raw = span.mutableBytes
    do throws(BlobStoreError) {
      _ = try reader.read(at: offset, into: &raw)
      Issue.record("bytes from outside")
    } catch {
      #expect(error.code == .invalidRange)
    }
    #expect(memory == [7, 7, 7, 7])
  }

  /// Y9: a replaced, removed, expired or collected blob stays readable, even if its file could be recycled.
  @Test(arguments: [BlobStore.Recycling.automatic, .off]) func keepsItsBlob(recycling: BlobStore.Recycling) throws {
    let store = try cache.store { $0.recycling = recycling }
    let bytes = payload(10_000)
    for change in 0..<4 {
      // The key has a low digest, so any other record may overwrite its file.
      try store.store(bytes, for: "bea", ttl: .seconds(10))
      let reader = try #require(try store.openReader(for: "bea"))
      try reader.withMappedBytes { span in
        switch change {
        case 0: try store.store(payload(9999, 2), for: "bea")
        case 1: _ = try store.remove("bea")
        case 2: _ = try store.removeAll(.all)
        default:
          cache.clock.advance(by: 11)
          #expect(try store.collect().expired == 1)
        }
        for number in 0..<20 { try store.store(payload(10_000, 3), for: BlobKey("key \(number)")) }
        #expect(span.withUnsafeBytes { Data($0) } == bytes)
      }
      #expect(try reader.read(0..<10_000) == bytes)
      #expect(try pieces(reader).bytes == bytes)
    }
  }

  /// L1, L2, O1: a reader is counted and touches the record like a load.
  @Test func countsAndTouchesAsALoad() throws {
    let store = try cache.store()
    try store.store(payload(100), for: "key")
    try store.clearTraffic()
    cache.clock.advance(by: 5)
    _ = try #require(try store.openReader(for: "key", touching: false))
    #expect(try cache.header("ke/key").updateTime == UInt64(cache.now) - 5)
    _ = try #require(try store.openReader(for: "key"))
    #expect(try cache.header("ke/key").updateTime == UInt64(cache.now))
    #expect(try store.openReader(for: "absent") == nil)
    cache.clock.advance(by: 601)
    #expect(try store.openReader(for: "key") == nil)
    let traffic = try store.traffic()
    #expect(traffic.hits == 2 && traffic.misses == 2)
    expect(.invalidKey) { _ = try store.openReader(for: "") }
  }

  /// L6 limits memory, which a reader does not allocate.
  @Test func payloadsAboveTheMaximumAreRead() throws {
    try cache.store().store(payload(1000), for: "key")
    let store = try cache.store { $0.limits.payload = 10 }
    #expect(try store.openReader(for: "key")?.read(0..<1000) == payload(1000))
  }

  /// L5, G1, G2: a damaged header is detected when the reader is opened.
  @Test(arguments: Damage.allCases.filter(\.showsInHeader), [BlobStore.DamagePolicy.report, .remove, .quarantine])
  func damageInTheHeaderIsAnError(damage: Damage, policy: BlobStore.DamagePolicy) throws {
    let store = try cache.store { $0.damagePolicy = policy }
    try store.store(payload(100), for: "key")
    try damage.inflict(on: "ke/key", in: cache)
    let error = expect(.damaged) { _ = try store.openReader(for: "key") }
    #expect(error?.recordError?.name == damage.rawValue)
    let stays = policy == .report || damage.mayBeMeant || damage == .keyMismatch
    #expect(try cache.exists("ke/key") == stays)
    #expect(try cache.exists(".quarantine/key") == (!stays && policy == .quarantine))
  }

  /// Y10, G1, G2: a damaged payload is detected by reads of the whole payload and by explicit verification.
  @Test(arguments: ["whole", "pieces", "mapped", "verify", "range"], [BlobStore.DamagePolicy.report, .remove])
  func damageOfThePayloadIsAnError(way: String, policy: BlobStore.DamagePolicy) throws {
    let store = try cache.store { $0.damagePolicy = policy }
    try store.store(payload(1000), for: "key")
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    let reader = try #require(try store.openReader(for: "key"))
    // A range and an unverified mapping do not check the payload.
    #expect(try reader.read(1..<1000) == payload(1000).dropFirst())
    #expect(try mapped(reader, verifying: false).dropFirst() == payload(1000).dropFirst())
    var received = 0
    let error = expect(.damaged) {
      switch way {
      case "whole": _ = try reader.read(0..<1000)
      case "pieces": try reader.forEachPiece(pieceSize: 300) { received += $0.byteCount }
      case "mapped": _ = try mapped(reader)
      case "verify": try reader.verify()
      default: _ = try reader.read(1..<1000, verifying: true)
      }
    }
    #expect(error?.recordError?.name == "payloadChecksumMismatch" && error?.key == "key")
    // The last piece is not delivered.
    #expect(received == (way == "pieces" ? 900 : 0))
    #expect(!reader.isVerified)
    #expect(try cache.exists("ke/key") == (policy == .report))
  }

  /// Y10: the checksum of an empty payload is verified, too.
  @Test func anEmptyPayloadIsVerified() throws {
    let store = try cache.store()
    try store.store(Data(), for: "key")
    try cache.changeHeader("ke/key") { $0.payloadChecksum = 1 }
    let reader = try #require(try store.openReader(for: "key"))
    expect(.damaged) { try reader.verify() }
    expect(.damaged) { _ = try reader.read(0..<0) }
  }

  /// G2: the policy does not apply to a record that was stored in the meantime.
  @Test func aNewRecordStaysWhereTheOldOneIsDamaged() throws {
    let store = try cache.store { $0.damagePolicy = .remove }
    try store.store(payload(100), for: "key")
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    let reader = try #require(try store.openReader(for: "key"))
    try store.store(payload(50), for: "key")
    expect(.damaged) { try reader.verify() }
    #expect(try store.load("key")?.payload == payload(50))
  }

  /// S9a: a record without a checksum is not verified.
  @Test func withoutAChecksumNothingIsCompared() throws {
    let store = try cache.store { $0.format = .reference }
    try store.store(payload(100), for: "key")
    try Damage.payloadChecksumMismatch.inflict(on: "ke/key", in: cache)
    let reader = try #require(try store.openReader(for: "key"))
    #expect(reader.isVerified)
    #expect(try reader.read(0..<100).dropFirst() == payload(100).dropFirst())
    #expect(try mapped(reader).count == 100)
    try reader.verify()
  }

  /// Y10: another program truncates the file.
  @Test func aTruncatedFileIsDamaged() throws {
    let store = try cache.store()
    try store.store(payload(1000), for: "key")
    let reader = try #require(try store.openReader(for: "key"))
    try check(truncate(cache.path("ke/key"), 564), "truncate")
    #expect(try reader.read(0..<500) == payload(1000).prefix(500))
    let error = expect(.damaged) { _ = try reader.read(400..<600) }
    #expect(error?.recordError == .wrongPayloadSize(stated: 1000, found: 500))
  }

  /// An error of the closure is rethrown, and the payload does not count as verified.
  @Test func errorsOfClosuresAreRethrown() throws {
    struct Own: Error {}
    let store = try cache.store()
    try store.store(payload(1000), for: "key")
    let reader = try #require(try store.openReader(for: "key"))
    #expect(throws: Own.self) { try reader.forEachPiece(pieceSize: 10) { _ in throw Own() } }
    #expect(!reader.isVerified)
    #expect(throws: Own.self) { try reader.withMappedBytes { _ in throw Own() } }
    #expect(reader.isVerified)
  }

  /// Failing calls throw typed errors.
  @Test func failingCallsAreReported() throws {
    let store = try cache.store(files: trace.files)
    try store.store(payload(1000), for: "key", ttl: .seconds(50))
    for call in [SystemCall.openBeneath, .status, .read] {
      trace.onCall { made, path in made == call && path.string.hasSuffix("/ke/key") ? .fail(.ioError) : nil }
      let error = expect(.fileSystem) { _ = try store.openReader(for: "key") }
      #expect(error?.errno == .ioError && error?.operation == "load" && error?.path != nil)
      trace.onCall(nil)
    }
    let reader = try #require(try store.openReader(for: "key"))
    trace.onCall { call, _ in [.read, .map].contains(call) ? .fail(.ioError) : nil }
    expect(.fileSystem) { _ = try reader.read(0..<10) }
    expect(.fileSystem) { _ = try mapped(reader) }
    expect(.fileSystem) { try reader.verify() }
    trace.onCall(nil)
    #expect(try reader.read(0..<1000) == payload(1000))
  }

  /// P13: a file that other users may write to is damaged.
  @Test func exposedFilesAreDamaged() throws {
    let store = try cache.store()
    try store.store(payload(10), for: "key")
    try check(chmod(cache.path(""), 0o755), "chmod")
    try check(chmod(cache.path("ke/key"), 0o666), "chmod")
    let error = expect(.damaged) { _ = try cache.store().openReader(for: "key") }
    #expect(error?.recordError == .writableByOthers)
  }

  /// Y8: offsets beyond 4 GiB.
  @Test func readsASparseBlobOfFiveGibibytes() throws {
    let size: Int64 = 5 << 30
    let header = RecordHeader(updateTime: UInt64(cache.now), payloadSize: UInt64(size))
    try cache.write(header.encoded, to: "ke/key")
    try check(truncate(cache.path("ke/key"), off_t(64 + size)), "truncate")
    let end = try FileDescriptor.open(FilePath(cache.path("ke/key")), .readWrite, options: .closeOnExec)
    try end.closeAfter { _ = try end.writeAll(toAbsoluteOffset: 64 + size - 3, [1, 2, 3]) }
    let store = try cache.store()
    let reader = try #require(try store.openReader(for: "key"))
    #expect(reader.byteCount == size)
    #expect(try reader.read(size - 5..<size) == Data([0, 0, 1, 2, 3]))
    #expect(try reader.read(4 << 30..<(4 << 30) + 2) == Data([0, 0]))
    try reader.withMappedBytes { bytes in
      #expect(bytes.byteCount == Int(size))
      #expect(bytes.unsafeLoad(fromByteOffset: Int(size) - 1, as: UInt8.self) == 3)
    }
    expect(.invalidRange) { _ = try reader.read(size..<size + 1) }
  }
}
