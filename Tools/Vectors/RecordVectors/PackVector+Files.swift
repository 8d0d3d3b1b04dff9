internal import BlobRecord

extension PackVector {
  /// A range of bytes of one of the files in a cache's `.packs`, with its offset in that file.
  struct Part {
    let path: String
    let file: String
    let offset: Int
    let bytes: [UInt8]
  }

  private static var parts: [Part] {
    [Part(path: "pack/head", file: "p-3", offset: 0, bytes: head)] + chunks.flatMap(\.parts)
      + [
        Part(path: "pack/index", file: "index", offset: 0, bytes: index),
        Part(path: "pack/checkpoint-head", file: "checkpoint", offset: 0, bytes: checkpointHead),
        Part(
          path: "pack/checkpoint-salts", file: "checkpoint", offset: 4096 + 16 * (1024 * pack + freed.number),
          bytes: checkpointSalts),
        Part(
          path: "pack/checkpoint-buckets", file: "checkpoint", offset: 4096 + 16_384 * (pack + 1),
          bytes: checkpointBuckets),
      ]
  }

  static var files: [(path: String, bytes: [UInt8])] {
    parts.map { ($0.path, $0.bytes) } + [("pack/manifest.json", Array((manifest.rendered() + "\n").utf8))]
  }

  private static var head: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 64)
    bytes.replaceSubrange(0..<8, with: Array("BLOBPACK".utf8))
    for (index, value) in [1, UInt64(pack), 1024, UInt64(Chunk.byteCount), identifier].enumerated() {
      bytes.put(value, at: 8 + 8 * index)
    }
    bytes.put(CRC32.checksum(of: bytes.span.bytes.extracting(first: 60)), at: 60)
    return bytes
  }

  // MARK: The index

  /// The index file, whose eight buckets contain the entries of the newest records.
  private static var index: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 4096)
    bytes.replaceSubrange(0..<8, with: Array("BLOBINDX".utf8))
    let newest = chunks.flatMap(\.newest)
    for (index, value) in [1, 0xB10B, bucketCount, seed].enumerated() { bytes.put(value, at: 8 + 8 * index) }
    for index in 0..<16 { bytes[40 + index] = UInt8(0xA0 + index) }
    bytes.put(UInt64(newest.count), at: 64)
    return bytes + buckets(bucketCount, seed: seed, of: newest, lastUse: lastUse)
  }

  private static func buckets(_ count: UInt64, seed: UInt64, of records: [Record], lastUse: UInt32) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: Int(count) * 64)
    for record in records {
      let hash = hash(of: record, seed: seed)
      var bucket = Int(hash.multipliedFullWidth(by: count).high)
      while true {
        let start = bucket * 64
        if let slot = (0..<5).first(where: { slot in
          bytes[(start + slot * 8)..<(start + slot * 8 + 8)].allSatisfy { $0 == 0 }
        }) {
          bytes.put(hash << 48 | UInt64((record.size + 15) / 16) << 37 | record.address, at: start + slot * 8)
          bytes.put(lastUse - 1_600_000_000, at: start + 40 + slot * 4)
          break
        }
        bytes.put(1 as UInt32, at: start + 60)
        bucket = (bucket + 1) % Int(count)
      }
    }
    return bytes
  }

  private static func hash(of record: Record, seed: UInt64) -> UInt64 {
    var hash = record.digest ^ seed
    hash = (hash ^ hash >> 30) &* 0xBF58_476D_1CE4_E5B9
    hash = (hash ^ hash >> 27) &* 0x94D0_49BB_1331_11EB
    return hash ^ hash >> 31
  }

  // MARK: The checkpoint

  private static var checkpointHead: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 64)
    bytes.replaceSubrange(0..<8, with: Array("BLOBCKPT".utf8))
    let fields = [1, checkpointSequence, checkpointSeed, checkpointBucketCount, UInt64(pack + 1)]
    for (index, value) in fields.enumerated() { bytes.put(value, at: 8 + 8 * index) }
    bytes.put(CRC32.checksum(of: checkpointBuckets.span.bytes), at: 56)
    bytes.put(CRC32.checksum(of: bytes.span.bytes.extracting(first: 60)), at: 60)
    return bytes
  }

  /// The salts of three consecutive chunks. Those of the middle chunk are zeros, because it was not sealed yet.
  private static var checkpointSalts: [UInt8] {
    var bytes = [UInt8](repeating: 0, count: 3 * 16)
    for chunk in [freed, covered] {
      for (quarter, salt) in chunk.salts.enumerated() {
        bytes.put(salt ?? 0, at: 16 * (chunk.number - freed.number) + 4 * quarter)
      }
    }
    return bytes
  }

  private static var checkpointBuckets: [UInt8] {
    let records = ([freed] + chunks).flatMap(\.records).filter(\.inCheckpoint)
    return buckets(checkpointBucketCount, seed: checkpointSeed, of: records, lastUse: checkpointLastUse)
  }
}

// MARK: - The manifest

extension PackVector {
  private static var manifest: JSONText {
    .object([
      ("specification", .string("Spec/PackFormat.md")),
      ("version", .number(1)),
      ("pack", .number(pack)),
      (
        "parts",
        .array(
          parts.map { part in
            .object([
              ("path", .string(part.path)), ("file", .string(part.file)), ("offset", .number(part.offset)),
              ("byteCount", .number(part.bytes.count)),
            ])
          })
      ),
      ("lastUse", .number(lastUse)),
      (
        "checkpoint",
        .object([
          ("sequence", .number(checkpointSequence)), ("lastUse", .number(checkpointLastUse)),
          ("covered", .array([.number(covered.number)])),
        ])
      ),
      ("chunks", .array(chunks.map(\.manifestEntry))),
    ])
  }
}

extension PackVector.Chunk {
  fileprivate var manifestEntry: JSONText {
    .object([
      ("chunk", .number(number)),
      ("salts", .array(salts.map { $0.map { .hexadecimal($0) } ?? .null })),
      ("records", .array(records.map(\.manifestEntry))),
    ])
  }
}

extension PackVector.Record {
  fileprivate var manifestEntry: JSONText {
    .object([
      ("offset", .number(offset)),
      ("note", .string(note)),
      ("fate", .string(fate.rawValue)),
      ("address", .hexadecimal(address)),
      ("byteCount", .number(size)),
      ("crc", .hexadecimal(bytes[..<4].reversed().reduce(0 as UInt32) { $0 << 8 | UInt32($1) })),
      ("sequence", .number(sequence)),
      ("name", .string(name)),
      ("digest", .hexadecimal(digest)),
      ("refCount", .number(refCount)),
      ("ttl", .number(ttl)),
      ("updateTime", .number(VectorSet.updateTime)),
      ("payloadSize", .number(payload.count)),
      ("payloadCRC32", .hexadecimal(CRC32.checksum(of: payload.span.bytes))),
      ("extensionSize", .number(tail.count)),
      ("inCheckpoint", .bool(inCheckpoint)),
    ])
  }
}

extension [UInt8] {
  mutating func put(_ value: some FixedWidthInteger, at offset: Int) {
    for index in 0..<value.bitWidth / 8 { self[offset + index] = UInt8(truncatingIfNeeded: value >> (8 * index)) }
  }
}
