internal import BlobRecord

extension PackVector {
  /// A chunk that contains records at its beginning and zeros after them.
  struct Chunk {
    static let byteCount = 1_032_192
    static let quarterByteCount = byteCount / 4

    let number: Int
    /// The number of bytes at the beginning of the chunk that the vector contains.
    let partByteCount: Int
    /// The prefix of the names of the chunk's parts.
    let prefix: String
    /// The salts of the four quarters, or `nil` for a quarter whose dead sector is invalid.
    let salts: [UInt32?]
    let openingSequence: UInt64
    /// The records, in the order of their offsets.
    let records: [Record]

    /// - Parameter records: The records, in order. The payload of a `carrier` becomes a copy of the first record.
    init(
      number: Int, partByteCount: Int, prefix: String, salts: [UInt32?], openingSequence: UInt64, records: [Record]
    ) {
      self.number = number
      self.partByteCount = partByteCount
      self.prefix = prefix
      self.salts = salts
      self.openingSequence = openingSequence
      var records = records
      var end = 0
      for index in records.indices {
        records[index].chunk = number
        records[index].salt = records[index].salt ?? salts[0]
        if records[index].name.hasSuffix("carrier") { records[index].payload = records[0].bytes }
        // The next multiple of 8 at which the 40 bytes of the record's header do not cross a multiple of 512.
        var offset = (end + 7) / 8 * 8
        while offset % 512 > 512 - 40 { offset += 8 }
        records[index].offset = offset
        end = offset + records[index].size
      }
      self.records = records
    }

    var newest: [Record] { records.filter { $0.fate == .newest } }

    /// The parts of the pack file that belong to this chunk.
    var parts: [Part] {
      [
        Part(path: "pack/\(prefix)table-entry", file: "p-3", offset: 4096 + number * 64, bytes: tableEntry),
        Part(path: "pack/\(prefix)dead-sectors", file: "p-3", offset: 69_632 + number * 4 * 512, bytes: deadSectors),
        Part(
          path: "pack/\(prefix)records", file: "p-3", offset: 2_166_784 + number * Self.byteCount, bytes: recordBytes),
      ]
    }

    private var tableEntry: [UInt8] {
      var bytes = [UInt8](repeating: 0, count: 64)
      bytes.put(session << 8 | 2, at: 0)
      bytes.put(UInt32(records.last.map { $0.offset + $0.size } ?? 0), at: 12)
      bytes.put(UInt32(newest.map(\.size).reduce(0, +)), at: 16)
      bytes.put(UInt32(newest.count), at: 20)
      bytes.put(8 as UInt32, at: 24)
      bytes.put(UInt64(VectorSet.updateTime + 3600), at: 32)
      bytes.put(openingSequence, at: 40)
      return bytes
    }

    private var deadSectors: [UInt8] {
      var bytes = [UInt8](repeating: 0, count: 4 * 512)
      for (quarter, salt) in salts.enumerated() {
        bytes.put(salt ?? 0x5EED_0003, at: quarter * 512)
        bytes.put(salt.map { ~$0 } ?? 0, at: quarter * 512 + 4)
      }
      for record in records where record.fate == .dead {
        let cell = record.offset % Self.quarterByteCount / 64
        bytes[record.offset / Self.quarterByteCount * 512 + 8 + cell / 8] |= 1 << UInt8(cell % 8)
      }
      return bytes
    }

    private var recordBytes: [UInt8] {
      var bytes = [UInt8](repeating: 0, count: partByteCount)
      for record in records { bytes.replaceSubrange(record.offset..<(record.offset + record.size), with: record.bytes) }
      return bytes
    }
  }
}
