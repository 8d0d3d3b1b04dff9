internal import BlobRecord
package import BlobStore
internal import Foundation
package import SystemPackage

/// The records in the packs of a directory, and contradictions between them, determined only from the bytes of the
/// files.
///
/// Each index entry must refer to a complete record that is not dead, and be found by its name. Each record that is
/// not dead must have an entry, unless a stripe announces it.
package struct PackAudit: Sendable {
  package struct Record: Sendable {
    package let name: String
    package let address: PackAddress
    package let header: PackedHeader
    package let payload: Data
    package let isDead: Bool
    /// A Boolean value that indicates whether the payload matches its checksum.
    package let isSound: Bool
  }

  /// All complete records in chunks, including dead ones.
  package private(set) var records: [Record] = []
  /// The records with index entries, by name.
  package private(set) var current: [String: Record] = [:]
  /// The contradictions.
  package private(set) var flaws: [String] = []
  /// The addresses of records that are announced in stripes.
  package private(set) var announced: Set<PackAddress> = []
  /// The stripes that are held, or were left by dead processes.
  package private(set) var heldStripes: [Int] = []

  /// - Parameter root: The root of a cache that no process changes concurrently.
  package init(of root: FilePath) throws {
    func bytes(_ name: String) throws -> [UInt8]? {
      let path = root.appending(FilePath(name).components).string
      guard FileManager.default.fileExists(atPath: path) else { return nil }
      return Array(try Data(contentsOf: URL(filePath: path)))
    }
    let control = try bytes(".blobcache") ?? []
    readIntents(control)
    for number in 0..<PackLayout.packCount {
      guard let pack = try bytes(".packs/p-\(number)") else { break }
      readPack(pack, number)
    }
    let number = control.word(at: ControlLayout.packIndexOffset)
    guard let index = try bytes(".packs/index"), number != 0,
      index.word(at: IndexLayout.numberOffset) == number
    else { return }
    compare(with: index)
  }

  /// The records by name to which a rebuilt index would refer.
  package var newest: [String: Record] {
    let live = records.filter { !$0.isDead && $0.isSound }
    return Dictionary(live.map { ($0.name, $0) }) { $0.header.sequence > $1.header.sequence ? $0 : $1 }
  }

  private mutating func readIntents(_ control: [UInt8]) {
    for stripe in 0..<ControlLayout.stripeCount {
      let offset = ControlLayout.stripeOffset(stripe)
      guard offset + ControlLayout.stripeByteCount <= control.count,
        !control.isEmpty(offset, ControlLayout.stripeByteCount)
      else { continue }
      if control.word(at: offset) != 0 { heldStripes.append(stripe) }
      for word in [ControlLayout.IntentWord.new, .old] {
        let intent = control.word(at: ControlLayout.intentOffset(word, of: stripe))
        if intent != 0 { announced.insert(PackAddress(rawValue: intent)) }
      }
    }
  }

  private mutating func readPack(_ pack: [UInt8], _ number: Int) {
    for chunk in 0..<PackLayout.chunkCount {
      let entry = PackLayout.tableEntryOffset(ofChunk: chunk)
      guard pack.word(at: entry + PackLayout.TableEntry.stateOffset) & 0xFF != 0 else { continue }
      func salt(_ quarter: Int) -> UInt64 {
        pack.word(at: PackLayout.deadSectorOffset(ofChunk: chunk, quarter: quarter))
      }
      let salts = ChunkSalts(words: SIMD4(salt(0), salt(1), salt(2), salt(3)))
      // A chunk is written only within its allocated part.
      let end = pack.word(at: entry + PackLayout.TableEntry.inFlightOffset) >> 32 & 0x7FFF_FFFF
      let start = PackLayout.fileOffset(ofChunk: chunk)
      let given = min(Int(end), PackLayout.chunkByteCount, max(0, pack.count - start))
      let content = Array(pack[min(start, pack.count)..<min(start, pack.count) + given])
      var walk = ChunkWalk(pack: number, chunk: chunk, salts: salts)
      while let record = walk.next(in: content.span.bytes) {
        let isDead = pack.word(at: record.address.deadWordOffset) & record.address.deadBit != 0
        let isSound = record.hasSoundPayload(in: content.span.bytes)
        if !isDead, !isSound, !announced.contains(record.address) {
          flaws.append("the record at \(record.address) has another payload than its checksum says")
        }
        records.append(
          Record(
            name: String(decoding: content[record.nameRange], as: UTF8.self), address: record.address,
            header: record.header, payload: Data(content[record.payloadRange]), isDead: isDead, isSound: isSound))
      }
    }
  }

  private mutating func compare(with index: [UInt8]) {
    let byAddress = Dictionary(records.map { ($0.address, $0) }) { first, _ in first }
    let bucketCount = (index.count - IndexLayout.headerByteCount) / IndexLayout.bucketByteCount
    for bucket in 0..<bucketCount where !index.isEmpty(IndexLayout.bucketOffset(bucket), IndexLayout.bucketByteCount) {
      for place in 0..<IndexLayout.entriesPerBucket {
        let entry = IndexEntry(rawValue: index.word(at: IndexLayout.bucketOffset(bucket) + 8 * place))
        guard !entry.isEmpty else { continue }
        guard let record = byAddress[entry.address] else {
          flaws.append("an entry leads to no record, at \(entry.address)")
          continue
        }
        if record.isDead { flaws.append("an entry leads to the dead \(record)") }
        if entry.byteCount != (record.header.byteCount + 15) / 16 * 16 {
          flaws.append("an entry has another size than \(record)")
        }
        if current.updateValue(record, forKey: record.name) != nil {
          flaws.append("two entries lead to records of the name of \(record)")
        }
        if !finds(record, in: index, bucketCount) { flaws.append("a search does not find \(record)") }
      }
    }
    for record in records where !record.isDead && current[record.name]?.address != record.address {
      if !announced.contains(record.address) { flaws.append("no entry leads to \(record), and no bit says it is dead") }
    }
  }

  private func finds(_ record: Record, in index: [UInt8], _ bucketCount: Int) -> Bool {
    let digest = NameDigest.digest(ofFileName: Array(record.name.utf8).span)
    let hash = IndexHash(digest: digest, seed: index.word(at: IndexLayout.seedOffset))
    var bucket = Int(hash.bucket(of: UInt64(bucketCount)))
    for _ in 0..<IndexLayout.longestSearch {
      let offset = IndexLayout.bucketOffset(bucket)
      for place in 0..<IndexLayout.entriesPerBucket {
        let entry = IndexEntry(rawValue: index.word(at: offset + 8 * place))
        if entry.tag == hash.tag, entry.address == record.address { return true }
      }
      guard index.word(at: offset + IndexLayout.overflowOffset - 4) >> 32 != 0 else { return false }
      bucket = (bucket + 1) % bucketCount
    }
    return false
  }
}

extension PackAudit.Record: CustomStringConvertible {
  package var description: String { "\(name), \(payload.count) bytes, \(header.refCount) locks, at \(address)" }
}

extension PackAddress: CustomStringConvertible {
  package var description: String { "\(pack)/\(chunk)/\(offset)" }
}

extension [UInt8] {
  /// Returns whether these bytes are zeros.
  fileprivate func isEmpty(_ offset: Int, _ byteCount: Int) -> Bool {
    // With a function of the C library, because without optimization, a Swift loop would dominate the running time.
    withUnsafeBytes { memcmp($0.baseAddress! + offset, [UInt8](repeating: 0, count: byteCount), byteCount) == 0 }
  }

  /// Returns a word, or 0 if it is beyond the end.
  fileprivate func word(at offset: Int) -> UInt64 {
    guard offset + 8 <= count else { return 0 }
    return withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
  }
}
