import BlobRecord
import BlobStore
import Foundation
import Posix
import SystemPackage
import TestSupport
import Testing

/// Streams to and from packs, and reads from mapped packs.
@Suite struct PackedReadTests: PackedSuite {
  let cache: Cache

  init() throws { cache = try Cache() }

  /// The pack grows while it is mapped, and another process replaces a record that is read.
  @Test func loadsMayReadFromMemory() throws {
    let (writer, trace) = (try store(), CallTrace())
    try writer.store(payload(10), for: "first")
    let reader = try cache.store(files: trace.files) {
      $0.packing = .upTo(8192)
      $0.packReads = .mapped
    }
    #expect(try reader.load("first")?.payload == payload(10))
    _ = trace.take()
    func bytes(_ number: Int, _ seed: UInt64) -> Data { payload(number * 3, seed) }
    for number in 0..<2000 { try writer.store(bytes(number, 1), for: BlobKey("key \(number)")) }
    for number in 0..<2000 { #expect(try reader.load(BlobKey("key \(number)"))?.payload == bytes(number, 1)) }
    for number in 0..<2000 { try writer.store(bytes(number, 2), for: BlobKey("key \(number)")) }
    for number in 0..<2000 { #expect(try reader.load(BlobKey("key \(number)"))?.payload == bytes(number, 2)) }
    #expect(trace.count(.read) == 0)
    // The status is read once per chunk, because the records are consecutive. The root is checked once a second.
    #expect(trace.count { $0.call == .status && $0.path.hasSuffix("p-0") } < 30)
    try flipBit(of: ".packs/p-0", at: 2_166_784 + 50)
    #expect(throws: BlobStoreError.self) { try reader.load("first") }
  }

  /// A load holds no lock, so changes of the key must not delay it forever, whether it is a hit in a file or a miss.
  @Test(arguments: [true, false]) func aLoadEndsWhileTheKeyChanges(isThere: Bool) throws {
    let (other, trace, calls) = (try store { $0.access.lockTimeout = .zero }, CallTrace(), CallCount())
    try other.store(payload(100), for: "packed")
    if isThere { try other.store(payload(9000), for: "key") }
    let reader = try store(files: trace.files)
    #expect(try reader.load("packed") != nil)
    trace.onCall { call, path in
      guard call == .openBeneath, path.string.hasSuffix("/key") else { return nil }
      calls.add(1)
      #expect(calls.value < 100)
      do {
        // Each change increments the key's generation. Finally, the load holds the key's stripe, so changes fail.
        if isThere { try other.store(payload(9000), for: "key") } else { try other.remove("key") }
      } catch {
        #expect((error as? BlobStoreError)?.code == .busy && !isThere)
      }
      return nil
    }
    #expect(try reader.load("key")?.payload == (isThere ? payload(9000) : nil))
    #expect(calls.value > 1)
  }

  /// A store that finds the pack shorter than an entry requires uses a read call, and reports the damage.
  @Test func whatWasCutOffIsNotReadFromMemory() throws {
    try store().store(payload(100), for: "key")
    try #require(truncate(cache.path(".packs/p-0"), 2_166_784 + 20) == 0)
    let reader = try cache.store {
      $0.packing = .upTo(8192)
      $0.packReads = .mapped
    }
    #expect(throws: BlobStoreError.self) { try reader.load("key") }
  }

  @Test func aReaderReadsParts() throws {
    let store = try store()
    try store.store(payload(500), for: "key")
    let reader = try #require(try store.openReader(for: "key"))
    #expect(try reader.read(100..<200) == payload(500)[100..<200])
    try store.remove("key")
    #expect(try reader.read(0..<500) == payload(500))
  }

  /// A stream is packed after its end if it is small.
  @Test(arguments: [(10, true), (8000, true), (8200, false), (300_000, false)])
  func aStreamThatStaysSmallIsPacked(byteCount: Int, isPacked: Bool) throws {
    let store = try store()
    var writer = try store.openWriter(for: "key", ttl: .seconds(50), locks: .one)
    try writer.append(payload(byteCount).prefix(7))
    try writer.append(payload(byteCount).dropFirst(7))
    try writer.commit()
    #expect(try store.load("key")?.payload == payload(byteCount))
    #expect(try store.header(for: "key")?.refCount == 1)
    #expect(try cache.exists("ke/key") != isPacked)
    #expect(try cache.exists("ke") != isPacked, "an empty subdirectory is left")
    #expect(try !cache.files().contains { $0.contains(".tmp") })
  }

  /// A discarded stream leaves no subdirectory either.
  @Test func aDiscardedStreamLeavesNothing() throws {
    var writer = try store().openWriter(for: "key", ttl: .seconds(50))
    try writer.append(payload(20_000))
    writer.discard()
    #expect(try !cache.exists("ke"))
    #expect(try !cache.files().contains { $0.contains(".tmp") })
  }

  /// A collection removes the new subdirectory before the file of a stream is moved to it.
  @Test func aStreamIsMovedAgainIfItsSubdirectoryIsRemoved() throws {
    let (trace, moves) = (CallTrace(), CallCount())
    let store = try cache.store(files: trace.files) { $0.packing = .upTo(8192) }
    var writer = try store.openWriter(for: "key", ttl: .seconds(50))
    try writer.append(payload(20_000))
    let path = cache.root.appending("ke")
    trace.onCall { call, _ in
      guard call == .rename else { return nil }
      moves.add(1)
      if moves.value == 1 { rmdir(path.string) }
      return nil
    }
    try writer.commit()
    #expect(moves.value == 2)
    #expect(try store.load("key")?.payload == payload(20_000))
    #expect(try cache.exists("ke/key"))
  }

  @Test func anImportIntoPacksMakesNoSubdirectories() throws {
    let source = try TemporaryDirectory()
    for number in 0..<10 { try payload(number * 10).write(to: source.url("file \(number)")) }
    let store = try store()
    try store.importFiles(from: source.path)
    #expect(try store.usage().records == 10)
    let names = try FileManager.default.contentsOfDirectory(atPath: cache.root.string)
    #expect(names.allSatisfy { $0.hasPrefix(".") })
  }

  @Test func aReaderTellsExpiryAndDamage() throws {
    let store = try store()
    try store.store(payload(500), for: "old", ttl: .seconds(10))
    cache.clock.advance(by: 11)
    #expect(try store.openReader(for: "old") == nil)
    try store.store(payload(500), for: "sound", extendedData: payload(20))
    let address = try #require(try store.records(prefix: "sound").first { _ in true }?.packed)
    let start = PackLayout.fileOffset(ofChunk: address.chunk) + address.offset
    // The last byte of the extension, and a byte of the header.
    for offset in [start + 40 + 5 + 500 + 20 + 16 - 1, start + 20] {
      try flipBit(of: ".packs/p-0", at: offset)
      expect(.damaged) { _ = try store.openReader(for: "sound") }
      let entry = try store.records(prefix: "").first { $0.key != "old" }
      #expect(entry?.state == .damaged)
    }
  }

  /// Changes the file in place, because it is mapped.
  private func flipBit(of file: String, at offset: Int) throws {
    let byte = try cache.bytes(file)[offset] ^ 1
    let handle = try FileHandle(forUpdating: URL(filePath: cache.path(file)))
    try handle.seek(toOffset: UInt64(offset))
    try handle.write(contentsOf: [byte])
    try handle.close()
  }
}
