internal import Posix

/// The bytes of a chunk, read at once, and the records in it.
struct ChunkContent {
  private let bytes: [UInt8]
  /// Dead ones, too.
  private(set) var records: [PackedRecord] = []
  /// Whether room was given out in which no record can be read: one that is damaged, or was not written to its end.
  private(set) var hasGaps = false

  /// System call: `pread(2)`.
  ///
  /// - Complexity: O(*n*) for the bytes of the chunk that were given out.
  init(of pack: PackFile, _ chunk: Int) throws {
    // Before the bytes: those of the chunk's next life have other salts.
    let salts = pack.salts(ofChunk: chunk)
    let start = PackAddress(pack: pack.number, chunk: chunk, offset: 0)
    let given = pack.entry(ofChunk: chunk).end
    var bytes = [UInt8](repeating: 0, count: given)
    // What bad blocks hold shows as a gap.
    let salvage = try unsafe bytes.withUnsafeMutableBytes { buffer in
      try unsafe pack.salvage(into: buffer, at: start)
    }
    bytes.removeLast(bytes.count - salvage.byteCount)
    self.bytes = bytes
    var walk = ChunkWalk(pack: pack.number, chunk: chunk, salts: salts)
    var end = 0
    while let record = walk.next(in: unsafe bytes.span.bytes) {
      if record.address.offset != PackLayout.firstPlace(from: end) { hasGaps = true }
      end = record.range.upperBound
      records.append(record)
    }
    if end < given { hasGaps = true }
  }

  /// The file name of a record, in UTF-8.
  func name(of record: PackedRecord) -> [UInt8] { Array(bytes[record.nameRange]) }
}
