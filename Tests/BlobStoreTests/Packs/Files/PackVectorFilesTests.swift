import BlobRecord
import Foundation
import SystemPackage
import TestSupport
import Testing

@testable import BlobStore

/// The files of Spec/vectors/pack in a cache: mapped files are read as the specification describes.
@Suite struct PackVectorFilesTests {
  struct Manifest: Decodable {
    struct Part: Decodable {
      var path: String
      var file: String
      var offset: Int
    }
    struct Record: Decodable {
      var offset: Int
      var address: String
      var fate: String
      var name: String
      var byteCount: Int
      var inCheckpoint: Bool
    }
    struct Chunk: Decodable {
      var chunk: Int
      var records: [Record]
    }
    struct Checkpoint: Decodable {
      var lastUse: Int64
      var covered: [Int]
    }
    var pack: Int
    var lastUse: Int64
    var parts: [Part]
    var checkpoint: Checkpoint
    var chunks: [Chunk]
    var records: [Record] { chunks.flatMap(\.records) }
  }

  let bench: PackBench
  let manifest: Manifest
  let pack: PackFile
  let index: PackIndex

  init() throws {
    bench = try PackBench()
    let vectors = Checkout.url("Spec/vectors").path
    manifest = try JSONDecoder().decode(
      Manifest.self, from: Data(try bytes(ofFile: vectors + "/pack/manifest.json")))
    for part in manifest.parts {
      let path = bench.path(part.file)
      if !FileManager.default.fileExists(atPath: path) { try Data().write(to: URL(filePath: path)) }
      let file = try #require(FileHandle(forWritingAtPath: path))
      try file.seek(toOffset: UInt64(part.offset))
      try file.write(contentsOf: Data(try bytes(ofFile: vectors + "/" + part.path)))
      try file.close()
    }
    pack = try #require(try PackFile.open(manifest.pack, in: bench.packs))
    index = try bench.opened()
  }

  /// Returns the record that a load finds, or `nil` if the index has no entry for the name.
  func load(_ name: String) throws -> (record: PackedRecord, time: UInt32)? {
    let digest = NameDigest.digest(ofFileName: name)
    var probe = index.probe(digest)
    while let (slot, entry) = probe.next(in: index) {
      var bytes = [UInt8](repeating: 0, count: entry.readByteCount)
      let count = try bytes.withUnsafeMutableBytes { try pack.read(into: $0, at: entry.address) }
      let dead = pack.deadBits(ofChunk: entry.address.chunk)
      guard count == bytes.count, let salt = dead.salt(ofQuarter: entry.address.quarter),
        let header = PackedHeader(decoding: bytes.span.bytes, at: entry.address, salt: salt),
        header.isPayloadSound(in: bytes), bytes[header.nameRange].elementsEqual(name.utf8)
      else { continue }
      #expect(index.isUnchanged(entry, at: slot))
      return (PackedRecord(address: entry.address, header: header), index.time(at: slot))
    }
    return nil
  }

  @Test func aLoadFindsTheNewestRecordsAndNoOthers() throws {
    for record in manifest.records where record.fate == "newest" {
      let found = try #require(try load(record.name))
      #expect(found.record.address.offset == record.offset && found.record.range.count == record.byteCount)
      #expect(IndexLayout.use(at: found.time).seconds == manifest.lastUse)
    }
    let newest = Set(manifest.records.filter { $0.fate == "newest" }.map(\.name))
    for record in manifest.records where !newest.contains(record.name) { #expect(try load(record.name) == nil) }
  }

  @Test func aWalkByTheMappedSaltsFindsWhatTheBitsSay() throws {
    for chunk in manifest.chunks {
      let dead = pack.deadBits(ofChunk: chunk.chunk)
      var bytes = [UInt8](repeating: 0, count: PackLayout.chunkByteCount)
      let start = PackAddress(pack: manifest.pack, chunk: chunk.chunk, offset: 0)
      let count = try bytes.withUnsafeMutableBytes { try pack.read(into: $0, at: start) }
      #expect(try count >= #require(chunk.records.map { $0.offset + $0.byteCount }.max()))
      let words = (0..<4).map { dead.salt(ofQuarter: $0).map(PackLayout.saltWord) ?? 0 }
      let salts = ChunkSalts(words: SIMD4(words[0], words[1], words[2], words[3]))
      let found = ChunkImage.walk(bytes, pack: manifest.pack, chunk: chunk.chunk, salts: salts)
      let expected = chunk.records.filter { $0.fate != "nothing" }
      #expect(found.map(\.address.offset) == expected.map(\.offset))
      #expect(found.map { dead.isDead($0.address) } == expected.map { $0.fate == "dead" })
      let entry = pack.entry(ofChunk: chunk.chunk)
      #expect(entry.state.kind == .sealed && entry.state.owner == 7)
    }
  }

  /// The entries of covered chunks are used, except for dead records.
  @Test func theEntriesOfTheCheckpointCountThatThePageSays() throws {
    guard case .checkpoint(let checkpoint) = PackCheckpoint.open(in: bench.packs) else {
      Issue.record("no checkpoint")
      return
    }
    #expect(try checkpoint.isWhole())
    let restoration = PackRestoration(from: checkpoint, [pack])
    let covered = (0..<PackLayout.chunkCount).filter { restoration.covers(chunk: $0, of: pack) }
    #expect(covered == manifest.checkpoint.covered)
    var counted: [UInt64] = []
    try checkpoint.forEachPiece { _, words in
      for bucket in stride(from: 0, to: words.count, by: 8) {
        for word in words[bucket..<bucket + IndexLayout.entriesPerBucket] where word != 0 {
          let entry = IndexEntry(rawValue: word)
          if restoration.isLive(entry) { counted.append(entry.address.rawValue) }
        }
      }
    }
    let expected = manifest.chunks.filter { manifest.checkpoint.covered.contains($0.chunk) }.flatMap(\.records).filter {
      $0.inCheckpoint && $0.fate != "dead"
    }
    #expect(counted.sorted() == expected.map { UInt64($0.address.dropFirst(2), radix: 16) })
  }
}
